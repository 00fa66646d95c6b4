package bolt

import (
	"errors"
	"maps"
	"slices"
	"time"

	"tollgate/dedupe"
)

// entry is one result or audit entry that is owed to the outside.
type entry struct {
	Call  string        `json:"c,omitempty"` // of a result
	Audit *dedupe.Audit `json:"a,omitempty"`
}

// owed is what is numbered and not published. A number leaves memory when it is
// published and the file with a later commit; publishing twice is harmless.
type owed struct {
	last    uint64 // the highest number given
	entries map[uint64]entry
	calls   map[string]int // how many results each call owes
	gone    []gone         // published, still in the file, oldest first
	kept    bool           // what is published stays in the file for now
}

// gone is a number that was published at an instant.
type gone struct {
	number uint64
	at     time.Time
}

func newOwed() owed { return owed{entries: map[uint64]entry{}, calls: map[string]int{}} }

func (o *owed) has(n uint64) bool {
	_, ok := o.entries[n]
	return ok && n != 0
}

func (o *owed) add(n uint64, e entry) {
	o.entries[n] = e
	if e.Call != "" {
		o.calls[e.Call]++
	}
}

// published takes note that n is out.
func (o *owed) published(n uint64) {
	e, ok := o.entries[n]
	if !ok {
		return
	}
	delete(o.entries, n)
	if o.gone = append(o.gone, gone{n, time.Now()}); e.Call == "" {
		return
	}
	if o.calls[e.Call]--; o.calls[e.Call] == 0 {
		delete(o.calls, e.Call)
	}
}

// leave returns the numbers that were published long enough ago to leave the file.
func (o *owed) leave(keep time.Duration, now time.Time) []gone {
	n := 0
	for !o.kept && n < len(o.gone) && now.Sub(o.gone[n].at) >= keep {
		n++
	}
	return o.gone[:n]
}

func (o *owed) numbers() []uint64 { return slices.Sorted(maps.Keys(o.entries)) }

// Published notes that something owed is stored by the server. It takes effect at
// once; the file learns of it with the next commit, a second later at the latest.
func (l *Ledger) Published(p dedupe.Publication) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.owed.published(p.Result)
	l.memory.owed.published(p.Audit)
	if r := l.memory.hot[p.Call]; r != nil && owes(r, p) {
		l.memory.hot[p.Call] = paid(r)
		l.memory.notes[p.Call] = p
	}
}

// Keep says whether what was published stays owed in the file, however long ago that
// was: while the server may not have it on its disk.
func (l *Ledger) Keep(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.owed.kept = all
}

// owes reports whether the record still has the slot that p says is published. A
// newer token or generation is another slot.
func owes(r *dedupe.Record, p dedupe.Publication) bool {
	return p.Slot != 0 && r.Slot == p.Slot && r.Token == p.Token && r.Generation == p.Generation
}

// paid returns the record without its slot. A published letter carries the request, and
// an edited call is in its stream.
func paid(r *dedupe.Record) *dedupe.Record {
	c := r.Clone()
	if c.Slot == dedupe.SlotLetter || c.Slot == dedupe.SlotEdit {
		c.Request = nil
	}
	c.Slot = 0
	return c
}

// Read is how often the ledger has read its file: once at the start, and again after
// a commit that was reported as failed and is in the file nevertheless. What such a
// commit owes nobody was told to publish: it is in Owed.
func (l *Ledger) Read() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory.read
}

// Pending counts what is owed to the outside.
func (l *Ledger) Pending() (results, audits, slots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.memory.owed.entries {
		if e.Audit != nil {
			audits++
		} else {
			results++
		}
	}
	for _, r := range l.memory.hot {
		if r.Slot != 0 {
			slots++
		}
	}
	return results, audits, slots
}

// Owed returns everything that is not published: records with an open slot,
// records whose result is not out, and audit entries, the last two by number. A result
// that a later generation has taken the place of is owed to nobody any more.
func (l *Ledger) Owed() (slots, results []*dedupe.Record, audits []dedupe.Audit) {
	l.mu.Lock()
	var numbers []uint64
	calls := map[uint64]string{}
	for _, n := range l.memory.owed.numbers() {
		if e := l.memory.owed.entries[n]; e.Audit != nil {
			audits = append(audits, *e.Audit)
		} else {
			numbers = append(numbers, n)
			calls[n] = e.Call
		}
	}
	for _, r := range l.memory.awake(func(r *dedupe.Record) bool { return r.Slot != 0 }) {
		slots = append(slots, r.Clone())
	}
	l.mu.Unlock()
	for _, n := range numbers {
		r, err := l.Record(calls[n])
		switch {
		case err == nil && r.Outcome != nil && r.Result == n:
			results = append(results, r)
		case err == nil || errors.Is(err, dedupe.ErrNotFound):
			l.Published(dedupe.Publication{Result: n})
		}
	}
	return slots, results, audits
}
