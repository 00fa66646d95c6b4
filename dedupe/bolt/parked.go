package bolt

import (
	"slices"
	"strings"
	"time"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// A call between attempts needs nothing of its record until it is due. With its
// schedule published it is parked: the record stays in the file only, and memory
// keeps what the looks over all waiting calls need. A hundred thousand of them are
// then some megabytes and not some hundred.
type parked struct {
	due       int64 // nanoseconds, as published
	published int64
	seq       uint64 // where the file has it
	run       *holder
}

// holder counts the records that still need one run.
type holder struct{ records int }

// parks reports whether a record may leave memory.
func parks(r *dedupe.Record) bool { return r.State == dedupe.Waiting && r.Slot == 0 }

// hold counts a record that may still be paid by the run.
func (m *memory) hold(run string) *holder {
	h := m.held[run]
	if h == nil {
		h = &holder{}
		m.held[run] = h
	}
	h.records++
	return h
}

func (m *memory) release(run string) {
	if h := m.held[run]; h != nil {
		if h.records--; h.records <= 0 {
			delete(m.held, run)
		}
	}
}

// keepLive takes a live record into memory, or notes where it is parked.
func (m *memory) keepLive(r *dedupe.Record, seq uint64) {
	h := m.hold(runOf(r))
	if parks(r) {
		m.parked[r.Call] = parked{due: r.Due.UnixNano(), published: r.Published.UnixNano(), seq: seq, run: h}
		return
	}
	m.hot[r.Call] = r
}

// appended says in which bucket, and where in it, the file may have a call that is
// not in memory.
func (m *memory) appended(call string) (bucket []byte, where []uint64) {
	if p, ok := m.parked[call]; ok {
		return bucketWaiting, []uint64{p.seq}
	}
	return bucketTerminal, m.terminal.candidates(call)
}

// Running gives the records that an attempt holds to f until it returns false. They
// are the ledger's own: f may keep them but must not change them.
func (l *Ledger) Running(f func(*dedupe.Record) bool) {
	l.mu.Lock()
	records := l.memory.awake(func(r *dedupe.Record) bool { return r.State.Running() })
	l.mu.Unlock()
	for _, r := range records {
		if !f(r) {
			return
		}
	}
}

// Waiting lists the calls between attempts that a run pays for.
func (l *Ledger) Waiting(tenant, root string) []string {
	k := runKey(tenant, root)
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.memory.held[k]
	if h == nil {
		return nil
	}
	return l.memory.waiting(func(p parked) bool { return p.run == h },
		func(r *dedupe.Record) bool { return r.Tenant == tenant && schemas.Root(r.Run) == root })
}

// Overdue lists the calls between attempts that were due before an instant.
func (l *Ledger) Overdue(before time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := before.UnixNano()
	return l.memory.waiting(func(p parked) bool { return p.due < at },
		func(r *dedupe.Record) bool { return r.Due.Before(before) })
}

// Counts says how many calls an attempt holds, and how many are between attempts.
func (l *Ledger) Counts() (running, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.memory.hot {
		switch {
		case r.State.Running():
			running++
		case r.State == dedupe.Waiting:
			waiting++
		}
	}
	return running, waiting + len(l.memory.parked)
}

// waiting lists the calls that match, in their order: those whose schedule is not
// published yet are in memory, the others parked.
func (m *memory) waiting(asleep func(parked) bool, awake func(*dedupe.Record) bool) []string {
	var calls []string
	for call, p := range m.parked {
		if asleep(p) {
			calls = append(calls, call)
		}
	}
	for call, r := range m.hot {
		if r.State == dedupe.Waiting && awake(r) {
			calls = append(calls, call)
		}
	}
	slices.Sort(calls)
	return calls
}

// awake lists the live records in memory that match, in the order of their calls.
func (m *memory) awake(match func(*dedupe.Record) bool) []*dedupe.Record {
	var out []*dedupe.Record
	for _, r := range m.hot {
		if match(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *dedupe.Record) int { return strings.Compare(a.Call, b.Call) })
	return out
}
