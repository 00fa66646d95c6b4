package replays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Refused says why something was not done about a bulk replay.
type Refused struct {
	Name    string
	Why     string
	Try     string
	Nothing bool // there is nothing that it could be done to
}

func (r *Refused) Error() string {
	if r.Name == "" {
		return r.Why
	}
	return "replay " + r.Name + ": " + r.Why
}

// List returns the bulk replays, the newest first.
func (r *Runner) List() ([]*dedupe.Replay, error) {
	all, err := r.cfg.Ledger.Replays()
	slices.SortFunc(all, func(a, b *dedupe.Replay) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// Show returns one bulk replay.
func (r *Runner) Show(name string) (*dedupe.Replay, error) { return r.cfg.Ledger.Replay(name) }

// Items is a page of the letters of a bulk replay.
type Items struct {
	Items []dedupe.ReplayItem `json:"items"`
	Next  int                 `json:"next,omitempty"` // From of the next page
}

// maxItems bounds a page so that it fits a message.
const maxItems = 4000

// Kinds are what the letters of a bulk replay can be narrowed to.
var Kinds = []string{"left", "replayed", "skipped", "succeeded", "died_again"}

// of reports whether an item is of a kind; "" is any.
func of(kind string, i dedupe.ReplayItem) bool {
	switch kind {
	case "":
		return true
	case "succeeded":
		return i.Status == schemas.Succeeded
	case "died_again":
		return i.Status != "" && i.Status != schemas.Succeeded && i.Status != statusForgotten
	}
	return kind == string(i.State)
}

// Items returns letters of a bulk replay from the given number on, in their order; with a
// kind only those of it.
func (r *Runner) Items(name string, from int, kind string) (Items, error) {
	page := Items{Items: []dedupe.ReplayItem{}}
	if kind != "" && !slices.Contains(Kinds, kind) {
		return page, &Invalid{fmt.Errorf("letters %q: one of %s", kind, strings.Join(Kinds, ", "))}
	}
	err := r.cfg.Ledger.ReplayItems(name, from, func(i dedupe.ReplayItem) bool {
		if len(page.Items) == maxItems {
			page.Next = i.N
			return false
		}
		if of(kind, i) {
			page.Items = append(page.Items, i)
		}
		return true
	})
	return page, err
}

// Pause keeps a replay from going on until it is resumed. What was replayed goes on.
func (r *Runner) Pause(ctx context.Context, name, by, why string) (*dedupe.Replay, error) {
	return r.change(ctx, name, dedupe.ReplayPause, by, why)
}

// Resume lets a paused or stopped replay go on. Outcomes that have stopped it are
// forgiven: the rule judges anew, from those to come.
func (r *Runner) Resume(ctx context.Context, name, by, why string) (*dedupe.Replay, error) {
	return r.change(ctx, name, dedupe.ReplayResume, by, why)
}

// Cancel ends a replay. What was replayed goes on; the rest stays as it is.
func (r *Runner) Cancel(ctx context.Context, name, by, why string) (*dedupe.Replay, error) {
	return r.change(ctx, name, dedupe.ReplayCancel, by, why)
}

// change is an operator's decision, in one commit with its audit entry. One that is
// refused is audited too.
func (r *Runner) change(ctx context.Context, name string, e dedupe.ReplayEvent, by, why string) (*dedupe.Replay, error) {
	var refused error
	var after *dedupe.Replay
	receipt, err := r.cfg.Ledger.UpdateReplay(ctx, name, func(was *dedupe.Replay) dedupe.ReplayChange {
		after, refused = was, nil
		if was == nil {
			refused = fmt.Errorf("replay %s is %w", name, dedupe.ErrNotFound)
			return dedupe.ReplayChange{}
		}
		now := time.Now()
		a := dedupe.Audit{At: now, Action: "replays_" + string(e), Target: "replay " + name, By: by, Why: why, Before: string(was.State)}
		next, ok := was.State.Next(e)
		if !ok {
			a.Detail = fmt.Sprintf("it is %s", was.State)
			refused = &Refused{Name: name, Why: a.Detail, Try: "tollgate replays show " + name}
			return dedupe.ReplayChange{Audit: []dedupe.Audit{a}}
		}
		if e == dedupe.ReplayResume && was.State == dedupe.ReplayStopped {
			after.Judged, after.CanaryPassed = was.Tally, true
		}
		enter(after, next, said(by, why), now)
		a.Allowed, a.After = true, string(next)
		return dedupe.ReplayChange{Replay: after, Audit: []dedupe.Audit{a}}
	})
	r.cfg.Publish(receipt.Audit)
	if err = errors.Join(err, refused); err != nil {
		return nil, err
	}
	r.poke(name)
	return after, nil
}

// enter puts a replay into another state.
func enter(r *dedupe.Replay, s dedupe.ReplayState, reason string, now time.Time) {
	r.State, r.Reason, r.Changed, r.Trouble = s, reason, now, ""
	if s.Terminal() {
		r.Ended = now
	}
}

func said(by, why string) string {
	if why == "" {
		return by
	}
	return by + ": " + why
}
