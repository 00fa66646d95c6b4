package bolt

import (
	"bytes"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

const (
	// riding is how many records a commit of changes expires on its way.
	riding = 32
	// alone is how many a commit expires that carries nothing else.
	alone = 512
)

// move is what expiry did to a terminal record: gone, or written again at the tail.
type move struct {
	call   string
	seq    uint64
	newSeq uint64 // 0: expired
}

// due reports whether the oldest terminal record has served its retention.
func (l *Ledger) due(now time.Time) bool {
	found := false
	err := l.view(func(tx *bbolt.Tx) error {
		terminal, err := bucket(tx, bucketTerminal)
		if err != nil {
			return err
		}
		_, v := terminal.Cursor().First()
		if v == nil {
			return nil
		}
		h, err := readHead(v)
		found = err == nil && l.expired(h, now)
		return err
	})
	l.sweepFailed(err)
	return found
}

func (l *Ledger) expired(h head, now time.Time) bool {
	return !h.since.Add(l.options.Retention).After(now)
}

// clean expires at most the given number of records, and the runs that the last
// look found expired. What goes wrong is counted; the commit goes on.
func (b *batch) clean(most int) {
	terminal, err := bucket(b.tx, bucketTerminal)
	if err == nil {
		err = b.expire(terminal, most)
	}
	b.l.sweepFailed(err)
	b.l.sweepFailed(b.dropRuns())
}

// expire removes records from the low end while they are due. One that is needed
// still goes to the tail, to be looked at again a retention later.
func (b *batch) expire(terminal *bbolt.Bucket, most int) error {
	for range most {
		k, v := terminal.Cursor().First()
		if k == nil {
			return nil
		}
		h, err := readHead(v)
		if err != nil {
			return err
		}
		if !b.l.expired(h, b.now) {
			return nil
		}
		m := move{call: h.call, seq: number(k)}
		again := bytes.Clone(v)
		if err := terminal.Delete(bytes.Clone(k)); err != nil {
			return err
		}
		if h.pinned || b.owes(h.call) {
			if m.newSeq, err = terminal.NextSequence(); err != nil {
				return err
			}
			stamp(again, b.now)
			if err := terminal.Put(key(m.newSeq), again); err != nil {
				return err
			}
		}
		b.moved = append(b.moved, m)
	}
	return nil
}

// owes reports whether a result of the call waits to be published.
func (b *batch) owes(call string) bool {
	for _, o := range b.out {
		if o.entry.Call == call {
			return true
		}
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	return b.l.memory.owed.calls[call] > 0
}

func (b *batch) mergeExpiry(m *memory) {
	for _, e := range b.moved {
		m.terminal.remove(e.call, e.seq)
		if e.newSeq != 0 {
			m.terminal.add(e.call, e.newSeq)
			continue
		}
		m.stats.Expired++
	}
	for _, k := range b.dropped {
		delete(m.runs, k)
		m.runCount--
		m.stats.ExpiredRuns++
	}
	if len(b.moved)+len(b.dropped) > 0 {
		m.stats.LastExpiry = b.now
	}
}

// sweepFailed counts what kept a sweep from its work.
func (l *Ledger) sweepFailed(err error) {
	if err == nil {
		return
	}
	l.count(func(s *Stats) {
		s.SweepErrors++
		s.SweepError = fmt.Errorf("expiry in ledger %s: %w", l.path, err)
	})
}
