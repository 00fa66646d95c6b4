package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// operate deals with the letters of a call until none is left: an unknown outcome is
// resolved by the provider's own books, every second dead call is replayed once, the
// rest is discarded.
func (a *agents) operate(ctx context.Context, s step, w *watch) {
	for range 4 {
		o := a.book.at(w, 0)
		if !dead(o) {
			return
		}
		id := dedupe.LetterID(o.Call, o.Generation)
		switch {
		case o.Status == schemas.UnknownOutcome && s.http():
			if happened := a.resolve(ctx, s, id); happened {
				a.waitFor(ctx, s, w, o.Generation+1)
				continue
			}
			fallthrough
		case o.Generation == 0 && o.Call[0]%2 == 0:
			if a.replay(ctx, id) {
				a.waitFor(ctx, s, w, o.Generation+1)
				continue
			}
		}
		a.discard(ctx, id)
		return
	}
	a.book.fault("%s still dies after four replays", s.name())
}

// dead reports whether an outcome has a letter.
func dead(o *schemas.Outcome) bool {
	switch o.Status {
	case schemas.Failed, schemas.UnknownOutcome, schemas.Exhausted:
		return true
	case schemas.Succeeded:
		return false
	}
	return o.Lane == schemas.Jobs && o.Status != schemas.Cancelled || o.Generation > 0
}

func (a *agents) waitFor(ctx context.Context, s step, w *watch, generation int) {
	ctx, cancel := context.WithTimeout(ctx, a.calls+patience)
	defer cancel()
	a.wait(ctx, s, w, generation)
}

// resolve tells what the provider's books say. Whoever was asked by a process that
// is dead has acted by now, or never will: a tool takes a tenth of a second.
func (a *agents) resolve(ctx context.Context, s step, id string) (happened bool) {
	time.Sleep(time.Second)
	_, happened = a.world.Asked(s.tool, s.call())
	q := control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.DidNotHappen, Why: "the provider's books"}}
	if happened {
		q.Verdict, q.Result = deadletter.Happened, json.RawMessage(`{"found":"in the books"}`)
	}
	return a.order(ctx, id, control.VerbResolve, q) && happened
}

// replay reports whether the letter was replayed, and not refused for good.
func (a *agents) replay(ctx context.Context, id string) bool {
	return a.order(ctx, id, control.VerbReplay, control.ReplayQuery{ID: id, ReplayOptions: deadletter.ReplayOptions{Why: "the soak replays some"}})
}

func (a *agents) discard(ctx context.Context, id string) {
	a.order(ctx, id, control.VerbDiscard, control.LetterQuery{ID: id, Why: "the soak has seen it"})
}

// order repeats an operation until it is done or refused. A refusal may follow a try
// that was done and whose answer was lost: the call's generation tells.
func (a *agents) order(ctx context.Context, id, verb string, query any) (done bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := insist(ctx, 3*time.Second, func(ctx context.Context) error {
		var answer control.Done
		err := a.ctl.Ask(ctx, verb, query, &answer)
		var f *control.Failure
		switch {
		case err == nil:
			done = true
		case errors.As(err, &f) && f.Code == http.StatusConflict:
			var active bool
			refused := err
			if done, active, err = a.became(ctx, id); err == nil && active && verb == control.VerbDiscard {
				err = refused // its outcome is still on the way: again in a moment
			}
		}
		return err
	})
	if err != nil && context.Cause(ctx) != errStopped {
		a.book.fault("%s of letter %s was never done: %v", verb, id, err)
	}
	return done
}

// became says what became of a letter: whether its call is in a later generation by
// now, else whether it is still active.
func (a *agents) became(ctx context.Context, id string) (later, active bool, err error) {
	_, generation, err := dedupe.ParseLetterID(id)
	if err != nil {
		return false, false, err
	}
	var d control.CallDetail
	err = a.ctl.Ask(ctx, control.VerbCallShow, control.IDQuery{ID: id}, &d)
	later = d.Generation > generation
	return later, !later && d.LetterState == string(schemas.LetterActive), err
}
