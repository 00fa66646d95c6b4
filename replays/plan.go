package replays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// Plan is what a bulk replay would do, or was made to do.
type Plan struct {
	Matched   int            `json:"matched"`
	Would     int            `json:"would_replay"`
	IDs       []string       `json:"done"` // the first of them, oldest first
	Skipped   map[string]int `json:"skipped,omitempty"`
	Uncertain int            `json:"uncertain,omitempty"` // of those that would be replayed: the effect may have happened
	Before    uint64         `json:"before"`              // the filter's Before with which the set is this one
	Rate      float64        `json:"rate"`
	InFlight  int            `json:"in_flight_most"`
	Canary    int            `json:"canary,omitempty"`
	StopAbove float64        `json:"stop_above"`

	items []dedupe.ReplayItem
}

// maxShown bounds the IDs of a plan, so that it fits a message.
const maxShown = 1000

// Plan says what a query would do, and does nothing.
func (r *Runner) Plan(ctx context.Context, q Query) (*Plan, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	letters, before, err := r.letters(ctx, &q)
	if err != nil {
		return nil, err
	}
	p := &Plan{Matched: len(letters), Skipped: map[string]int{}, Before: before}
	for _, l := range letters {
		uncertain, err := r.cfg.Letters.Check(l, r.cfg.Ledger, q.ReplayOptions)
		var refused *deadletter.Refused
		switch {
		case errors.As(err, &refused):
			skip(p.Skipped, refused.Why)
			continue
		case err != nil:
			return nil, err
		case uncertain:
			p.Uncertain++
		}
		p.items = append(p.items, dedupe.ReplayItem{N: len(p.items), Letter: l.ID, Sequence: l.Sequence, State: dedupe.ItemLeft})
	}
	p.Would = len(p.items)
	p.IDs = make([]string, 0, min(p.Would, maxShown))
	for _, item := range p.items[:min(p.Would, maxShown)] {
		p.IDs = append(p.IDs, item.Letter)
	}
	made := q.replay(p.Would, time.Now())
	p.Rate, p.InFlight, p.Canary, p.StopAbove = made.Rate, made.InFlight, made.Canary, made.StopAbove
	return p, nil
}

// letters freezes the set, the oldest first: what dies from now on is not in it.
func (r *Runner) letters(ctx context.Context, q *Query) ([]schemas.Letter, uint64, error) {
	f, limit := q.Filter, q.Filter.Limit
	if f.Limit = math.MaxInt32; len(q.IDs) > 0 {
		f = deadletter.Filter{State: "all", Limit: math.MaxInt32, Tenant: q.Filter.Tenant}
	}
	page, err := r.cfg.List(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	letters := page.Letters
	slices.SortFunc(letters, func(a, b schemas.Letter) int { return cmp.Compare(a.Sequence, b.Sequence) })
	if len(q.IDs) > 0 {
		if letters, err = named(letters, q.IDs); err != nil {
			return nil, 0, err
		}
	}
	if limit > 0 && len(letters) > limit {
		letters = letters[:limit]
	}
	before := q.Filter.Before
	if n := len(letters); n > 0 && before == 0 {
		before = letters[n-1].Sequence + 1
	}
	return letters, before, nil
}

// named takes the letters with the given IDs, each once.
func named(letters []schemas.Letter, ids []string) ([]schemas.Letter, error) {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	letters = slices.DeleteFunc(letters, func(l schemas.Letter) bool {
		found := wanted[l.ID]
		delete(wanted, l.ID)
		return !found
	})
	for _, id := range ids {
		if wanted[id] {
			return nil, fmt.Errorf("%w: %s", deadletter.ErrNotFound, id)
		}
	}
	return letters, nil
}

// maxReasons bounds the reasons that are told apart: some name a run.
const maxReasons = 40

// skip counts a letter that is left out.
func skip(by map[string]int, why string) {
	if _, known := by[why]; !known && len(by) >= maxReasons {
		why = "other reasons; each letter has its own"
	}
	by[why]++
}
