package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Page is one page of a list.
type Page struct {
	Letters []schemas.Letter `json:"items"`
	Total   int              `json:"total"`          // that match, on all pages
	Next    uint64           `json:"next,omitempty"` // Before of the next page
	Last    uint64           `json:"last"`           // the highest sequence that was looked at
}

// List returns a page of the letters that match, in the order asked for, without their
// bodies. Limit 0 is 50.
func (x *Index) List(ctx context.Context, f Filter) (Page, error) {
	found, last, err := x.find(ctx, f)
	if err != nil {
		return Page{}, err
	}
	p := Page{Letters: []schemas.Letter{}, Total: len(found), Last: last}
	if found, err = rest(found, f); err != nil {
		return Page{}, err
	}
	if limit := cmp.Or(f.Limit, 50); len(found) > limit {
		found, p.Next = found[:limit], found[limit-1].seq
	}
	for _, e := range found {
		p.Letters = append(p.Letters, e.letter())
	}
	return p, nil
}

// IDs returns the IDs of the letters that match, with their reasons, in the order
// asked for: the frozen set of a bulk operation. next is the Before of those that
// Limit has left out; 0 is no limit.
func (x *Index) IDs(ctx context.Context, f Filter) (ids, reasons []string, next uint64, err error) {
	found, _, err := x.find(ctx, f)
	if err == nil {
		found, err = rest(found, f)
	}
	for i, e := range found {
		if f.Limit > 0 && i == f.Limit {
			return ids, reasons, found[i-1].seq, err
		}
		ids, reasons = append(ids, dedupe.LetterID(e.fate.call, e.generation)), append(reasons, e.kind.Value().reason)
	}
	return ids, reasons, 0, err
}

// find returns the letters that match, in the order asked for, and how far it looked.
func (x *Index) find(ctx context.Context, f Filter) (found []*entry, last uint64, err error) {
	m, err := f.compile()
	if err != nil {
		return nil, 0, err
	}
	all, err := x.letters(ctx)
	if err != nil {
		return nil, 0, err
	}
	for e := range matching(all, m) {
		found = append(found, e)
	}
	if len(all) > 0 {
		last = all[len(all)-1].seq
	}
	slices.SortFunc(found, orderBy(f.Sort))
	return found, last, nil
}

// matching gives the letters that match, oldest first.
func matching(all []*entry, m *matcher) func(yield func(*entry, schemas.LetterState) bool) {
	return func(yield func(*entry, schemas.LetterState) bool) {
		for _, e := range all {
			if e.gone.Load() {
				continue
			}
			if state, _ := e.state(); m.match(e, state) && !yield(e, state) {
				return
			}
		}
	}
}

// rest is what follows the cursor. In the order of sequences the letter it names need
// not be there any more; in another one it is needed to find its place.
func rest(found []*entry, f Filter) ([]*entry, error) {
	if f.Before == 0 {
		return found, nil
	}
	switch f.Sort {
	case "", "-seq":
		return after(found, func(e *entry) bool { return e.seq < f.Before }), nil
	case "seq":
		return after(found, func(e *entry) bool { return e.seq > f.Before }), nil
	}
	at := slices.IndexFunc(found, func(e *entry) bool { return e.seq == f.Before })
	if at < 0 {
		return nil, &Moved{f.Before}
	}
	return found[at+1:], nil
}

func after(found []*entry, follows func(*entry) bool) []*entry {
	if at := slices.IndexFunc(found, follows); at >= 0 {
		return found[at:]
	}
	return nil
}

// Moved says that a page cannot be continued: the letter it ended with does not match
// any more.
type Moved struct{ Sequence uint64 }

func (m *Moved) Error() string {
	return fmt.Sprintf("the letter that the page before ended with (%d) does not match any more, so its place in this order is unknown; begin again without the cursor, or sort by seq", m.Sequence)
}

// Counts is how many letters there are, by what has become of them.
type Counts struct {
	Active    int       `json:"active"`
	Replaying int       `json:"replaying"`
	Resolved  int       `json:"resolved"`
	Discarded int       `json:"discarded"`
	Purged    int       `json:"purged,omitempty"`
	Oldest    time.Time `json:"oldest,omitzero"` // active one
}

// Counts counts all letters.
func (x *Index) Counts(ctx context.Context) (Counts, error) {
	all, err := x.letters(ctx)
	var c Counts
	for e := range matching(all, &matcher{}) {
		c.add(e)
	}
	return c, err
}

func (c *Counts) add(e *entry) {
	state, _ := e.state()
	*map[schemas.LetterState]*int{schemas.LetterActive: &c.Active, schemas.LetterReplaying: &c.Replaying, schemas.LetterResolved: &c.Resolved,
		schemas.LetterDiscarded: &c.Discarded, schemas.LetterPurged: &c.Purged}[state]++
	if state == schemas.LetterActive && (c.Oldest.IsZero() || e.died.Before(c.Oldest)) {
		c.Oldest = e.died
	}
}

// Show returns one letter, whole, with its state.
func (o *Operations) Show(ctx context.Context, id string) (schemas.Letter, error) {
	call, generation, err := dedupe.ParseLetterID(id)
	if err != nil {
		return schemas.Letter{}, err
	}
	l, err := o.Store.Get(ctx, call, generation)
	if err == nil {
		err = o.tell(&l)
	}
	return l, err
}

// tell sets a letter's state, as the ledger has it.
func (o *Operations) tell(l *schemas.Letter) error {
	s, err := o.Ledger.Standing(l.Call)
	if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
		return err
	}
	l.State, l.Note = stateOf(l.Reason, l.Generation, s)
	return nil
}
