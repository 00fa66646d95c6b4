package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"tollgate/budget"
	"tollgate/dedupe"
)

// batch is the overlay of one commit: what its changes see and make. Memory and
// file stay as they are until the batch is complete.
type batch struct {
	l       *Ledger
	tx      *bbolt.Tx
	now     time.Time
	last    uint64 // the highest number given to a result or audit entry
	records map[string]*staged
	order   []string // of records, so that a commit writes them as they came
	runs    map[string]*stagedRun
	out     []outgoing
	gone    []gone // published long enough before this commit to leave the file
	notes   map[string]dedupe.Publication
	pauses  map[string]*dedupe.Pause
	remarks map[string]*dedupe.Remark
	moved   []move // by expiry
	dropped []string
	touched bool  // something was written past the overlay
	broken  error // of such a write: nothing of the batch may be committed
}

// staged is one record of the overlay and where the file holds it now.
type staged struct {
	record *dedupe.Record // nil: no such call
	value  []byte         // to be written; nil is unchanged
	in     place
	seq    uint64 // where it is appended
	held   string // run key it is counted under
	newSeq uint64
}

type stagedRun struct {
	run     *budget.Run // nil: no such run
	changed bool
	known   bool // in the file
}

type outgoing struct {
	number uint64
	entry  entry
	value  []byte
}

func (l *Ledger) newBatch(tx *bbolt.Tx) *batch {
	b := &batch{l: l, tx: tx, now: time.Now(), records: map[string]*staged{}, runs: map[string]*stagedRun{},
		notes: map[string]dedupe.Publication{}, pauses: map[string]*dedupe.Pause{}, remarks: map[string]*dedupe.Remark{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	b.last = l.memory.owed.last
	b.gone = l.memory.owed.leave(l.options.KeepPublished, time.Now())
	return b
}

// mutate runs one mutation on the overlay. All of it is staged or nothing is.
func (b *batch) mutate(ref dedupe.Ref, m dedupe.Mutation) (dedupe.Receipt, error) {
	view, err := b.view(ref)
	if err != nil {
		return dedupe.Receipt{}, err
	}
	change, err := run(m, view)
	if err != nil {
		return dedupe.Receipt{}, err
	}
	return b.stage(change)
}

// run shields the batch from a mutation that panics.
func run(m dedupe.Mutation, v dedupe.View) (c dedupe.Change, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the mutation panicked: %v\n%s", dedupe.ErrUnavailable, p, debug.Stack())
		}
	}()
	return m(v), nil
}

func (b *batch) view(ref dedupe.Ref) (dedupe.View, error) {
	v := dedupe.View{Epoch: b.l.epoch, Horizon: b.l.horizon}
	owner := runKey(ref.Tenant, ref.Root)
	if ref.Call != "" {
		s, err := b.load(ref.Call)
		if err != nil {
			return v, err
		}
		if s.record != nil {
			v.Record = s.record.Clone()
			v.Unpublished = b.unpublished(s.record)
			owner = runOf(s.record)
		}
	}
	r, err := b.loadRun(owner)
	if err == nil && r.run != nil {
		v.Run = r.run.Clone()
	}
	return v, err
}

func (b *batch) unpublished(r *dedupe.Record) bool {
	for _, o := range b.out {
		if o.number == r.Result {
			return true
		}
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	return b.l.memory.unpublished(r)
}

// stage takes a change into the overlay. Everything is encoded first: what cannot
// be stored fails its own change only.
func (b *batch) stage(c dedupe.Change) (dedupe.Receipt, error) {
	var receipt dedupe.Receipt
	var out []outgoing
	var commit []func()
	last := b.last
	if c.Result && c.Record == nil {
		return receipt, errors.New("bolt: a change publishes a result and has no record")
	}
	if c.Record != nil {
		s, err := b.load(c.Record.Call)
		if err != nil {
			return receipt, err
		}
		r := c.Record.Clone()
		if c.Result {
			last++
			receipt.Result, r.Result = last, last
			out = append(out, outgoing{number: last, entry: entry{Call: r.Call}})
		}
		value, err := b.l.codec.record(r)
		if err != nil {
			return dedupe.Receipt{}, refused(err)
		}
		commit = append(commit, func() { s.record, s.value = r, value })
	}
	if c.Run != nil {
		s, err := b.loadRun(runKey(c.Run.Tenant, c.Run.Root))
		if err != nil {
			return dedupe.Receipt{}, err
		}
		r := c.Run.Clone() // encoded when the batch is complete: many of its calls may be this run's
		commit = append(commit, func() { s.run, s.changed = r, true })
	}
	if c.Mark != nil {
		value, err := versioned(c.Mark.Item)
		if err != nil {
			return dedupe.Receipt{}, refused(err)
		}
		commit = append(commit, func() { b.mark(*c.Mark, value) })
	}
	for _, a := range c.Audit {
		last++
		a.Number = last
		receipt.Audit = append(receipt.Audit, a)
		out = append(out, outgoing{number: last, entry: entry{Audit: &a}})
	}
	for i := range out {
		var err error
		if out[i].value, err = versioned(out[i].entry); err != nil {
			return dedupe.Receipt{}, refused(err)
		}
	}
	for _, f := range commit {
		f()
	}
	b.last, b.out = last, append(b.out, out...)
	return receipt, nil
}

func refused(err error) error {
	return fmt.Errorf("%w: the change cannot be stored: %w", dedupe.ErrUnavailable, err)
}
