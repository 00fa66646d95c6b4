package bolt

import (
	"bytes"
	"time"

	"go.etcd.io/bbolt"

	"tollgate/budget"
)

// sweepStep is how many runs one tick looks at.
const sweepStep = 256

// sweep walks the runs, a step at a tick, and remembers which have expired.
type sweep struct {
	at   []byte    // where the next step begins; nil is at the first run
	more bool      // the walk is not at its end
	next time.Time // no run expires before it: the next walk begins then
	low  time.Time // earliest expiry this walk has met
	runs []string  // expired, to be dropped by the next commit
}

// planSweep takes one step. A run is dropped when its last use is a retention ago,
// all its deadlines are past and no record of it is left that could be paid again.
func (l *Ledger) planSweep(now time.Time) {
	l.forgetNowAndThen(now) // the walks over the file are what reads most of it
	s := &l.sweep
	if !s.more && now.Before(s.next) {
		return
	}
	if !s.more {
		s.low = now.Add(l.options.Retention)
	}
	s.runs, s.more = s.runs[:0], false
	err := l.view(func(tx *bbolt.Tx) error {
		runs, err := bucket(tx, bucketRuns)
		if err != nil {
			return err
		}
		c := runs.Cursor()
		k, v := c.Seek(s.at)
		for n := 0; k != nil && n < sweepStep; n++ {
			r, err := readRun(v)
			if err != nil {
				return err
			}
			if at := l.runExpiry(r); at.After(now) {
				s.low = earlier(s.low, at)
			} else if l.needed(string(k)) {
				s.low = earlier(s.low, now.Add(time.Minute))
			} else {
				s.runs = append(s.runs, string(k))
			}
			k, v = c.Next()
		}
		s.at, s.more = bytes.Clone(k), k != nil
		return nil
	})
	if !s.more {
		s.at, s.next = nil, s.low
	}
	if err != nil {
		s.next = now.Add(time.Minute)
		l.sweepFailed(err)
		return
	}
	l.count(func(st *Stats) { st.LastSweep = now })
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// needed reports whether a record of the run is live, or its letter is.
func (l *Ledger) needed(run string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory.held[run] != nil
}

// runExpiry is the first instant at which a run is of no more use.
func (l *Ledger) runExpiry(r *budget.Run) time.Time {
	used, deadline := later(r.Used, r.Started), time.Time{}
	for _, a := range r.Accounts {
		used, deadline = later(used, a.Opened), later(deadline, a.Limits.Deadline)
	}
	return later(used.Add(l.options.Retention), deadline.Add(1))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// dropRuns removes the runs of the plan, but for those this commit uses.
func (b *batch) dropRuns() error {
	planned := b.l.sweep.runs
	b.l.sweep.runs = planned[:0]
	if len(planned) == 0 {
		return nil
	}
	runs, err := bucket(b.tx, bucketRuns)
	if err != nil {
		return err
	}
	for _, k := range planned {
		v := runs.Get([]byte(k))
		if _, used := b.runs[k]; used || v == nil {
			continue
		}
		r, err := readRun(v)
		if err != nil {
			return err
		}
		if b.l.runExpiry(r).After(b.now) {
			continue
		}
		if err := runs.Delete([]byte(k)); err != nil {
			return err
		}
		b.dropped = append(b.dropped, k)
	}
	return nil
}
