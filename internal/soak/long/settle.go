package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tollgate/control"
	"tollgate/schemas"
)

// settle holds a finished run against the tools' books and its accounts.
func (a *agents) settle(ctx context.Context, steps []step, watches []*watch) {
	for i, s := range steps {
		if o := a.book.at(watches[i], 0); o != nil {
			a.checkTools(s, o)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := insist(ctx, 5*time.Second, func(ctx context.Context) error { return a.checkAccounts(ctx, steps, watches) })
	if err != nil && context.Cause(ctx) != errStopped {
		a.book.fault("%v", err)
	}
}

// checkTools holds an outcome against what the tool saw.
func (a *agents) checkTools(s step, o *schemas.Outcome) {
	if !s.http() {
		return
	}
	requests, paid := a.world.Asked(s.tool, s.call())
	if requests > len(o.Attempts) {
		a.book.fault("I4: %s: %d requests for %d attempts", s.name(), requests, len(o.Attempts))
	}
	if generations := dispatched(o); s.never() && requests > generations {
		a.book.fault("I2: %s must not be repeated, and was sent %d times in %d generations", s.name(), requests, generations)
	}
	if o.Status == schemas.Succeeded && s.write() && !paid {
		a.book.fault("%s succeeded, and nothing was paid", s.name())
	}
}

// dispatched is how many generations of a call made an attempt.
func dispatched(o *schemas.Outcome) int {
	seen := map[int]bool{}
	for _, t := range o.Attempts {
		seen[t.Generation] = true
	}
	return len(seen)
}

// checkAccounts holds the run's accounts against all its outcomes.
func (a *agents) checkAccounts(ctx context.Context, steps []step, watches []*watch) error {
	path := steps[0].run
	var run control.RunDetail
	if err := a.ctl.Ask(ctx, control.VerbRunShow, control.RunQuery{Run: path}, &run); err != nil {
		return fmt.Errorf("show run %s: %w", path, err)
	}
	attempts, effects := 0, 0
	for i, s := range steps {
		o := a.book.at(watches[i], 0)
		if o == nil {
			return nil // a fault of its own
		}
		attempts += len(o.Attempts)
		if s.write() {
			effects += len(o.Attempts) - len(slices.Collect(notSent(o)))
		}
	}
	own, root := run.Accounts[path], run.Accounts[schemas.Root(path)]
	switch {
	case own.Attempts != attempts || root.Attempts != attempts || own.Effects != effects || root.Effects != effects:
		for _, s := range steps {
			_ = a.stored(ctx, s) // a later outcome may have been missed: the next try sees it
		}
		return fmt.Errorf("I4: run %s was charged %d and %d attempts, %d and %d effects; its outcomes have %d and %d", path,
			own.Attempts, root.Attempts, own.Effects, root.Effects, attempts, effects)
	case own.Attempts > own.Limits.Attempts, steps[0].budget != "" && own.Limits.Attempts != 8:
		a.book.fault("I3: run %s has spent %d of %d attempts", path, own.Attempts, own.Limits.Attempts)
	}
	return nil
}

// notSent yields the attempts that provably never left: they cost no side effect.
func notSent(o *schemas.Outcome) func(func(schemas.Attempt) bool) {
	return func(yield func(schemas.Attempt) bool) {
		for _, t := range o.Attempts {
			if t.Phase == "not_sent" && !yield(t) {
				return
			}
		}
	}
}
