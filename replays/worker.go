package replays

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"tollgate/deadletter"
	"tollgate/dedupe"
)

const (
	atOnce    = 64                     // letters that are replayed together: they share commits
	saveEvery = 250 * time.Millisecond // how old the stored counters may be
	trouble   = time.Second            // the pause after something that may pass
	longest   = time.Minute            // the longest that nobody looks, whatever happens
	patience  = time.Minute            // how long a letter that may be allowed in a moment is tried again
)

// worker carries out one bulk replay. All of it but pokes is its own goroutine's.
type worker struct {
	cfg   Config
	name  string
	pokes chan struct{} // capacity 1: an operator has changed the replay

	replay  *dedupe.Replay // as it was stored; its counters are older than ours
	limit   *rate.Limiter
	reader  *deadletter.Reader
	tally   dedupe.ReplayTally
	skipped map[string]int
	left    []dedupe.ReplayItem // to be replayed, in order
	later   []deferred          // to be tried again
	since   map[int]time.Time   // when one of these was first tried
	open    []underway
	dirty   []dedupe.ReplayItem // changed since they were stored
	unsaved bool
	saved   time.Time
	problem string    // what keeps it from going on
	held    time.Time // nothing is tried before
	stale   bool      // an operator has changed the replay since it was read
	reread  time.Time // it is not read again before
}

// deferred is a letter that may be allowed in a moment.
type deferred struct {
	item dedupe.ReplayItem
	due  time.Time
}

// underway is a replayed letter without an outcome.
type underway struct {
	item dedupe.ReplayItem
	due  time.Time // to be looked at
}

func newWorker(cfg Config, name string) *worker {
	return &worker{cfg: cfg, name: name, pokes: make(chan struct{}, 1), since: map[int]time.Time{}}
}

func (w *worker) poke() {
	select {
	case w.pokes <- struct{}{}:
	default:
	}
}

// run returns when the replay is over and all its outcomes are known, or ctx ends.
func (w *worker) run(ctx context.Context) {
	for !w.load(time.Now()) {
		if !rest(ctx, trouble) {
			return
		}
	}
	defer w.flush(ctx)
	for ctx.Err() == nil {
		now := time.Now()
		w.again(now)
		w.look(now)
		step := Next(w.facts(now))
		switch {
		case step.Do == Leave:
			return
		case step.Do == Send:
			w.send(ctx, step.N)
		case step.Do != Wait && w.decide(ctx, step):
			continue
		}
		if w.unsaved && time.Since(w.saved) >= saveEvery {
			w.save(ctx, nil)
		}
		// From the instant of the decision: what has come due since must not be slept through.
		if step.Do != Send && !w.sleep(ctx, time.Until(now.Add(w.pause(now)))) {
			return
		}
		w.stale = w.poked() || w.stale
		if w.stale && !time.Now().Before(w.reread) {
			w.reload()
		}
	}
}

// rest is a sleep that no poke ends.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// sleep reports whether ctx goes on. A poke ends it early.
func (w *worker) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.pokes:
		w.poke() // it is seen to by poked
	case <-t.C:
	}
	return true
}

func (w *worker) poked() bool {
	select {
	case <-w.pokes:
		return true
	default:
		return false
	}
}

func (w *worker) facts(now time.Time) Facts {
	f := Facts{Replay: w.replay, Tally: w.tally, Left: len(w.left) + len(w.later), Ready: len(w.left), AtOnce: atOnce}
	if !now.Before(w.held) && !w.stale && w.untilAllowed(now) == 0 { // stale: it may be paused by now
		f.Allowed = int(w.limit.TokensAt(now) + 1e-6) // what lacks less than a nanosecond's worth is there
	}
	return f
}

// pause is how long nothing can happen, of a replay that could do nothing at now: until
// an outcome is looked for, a letter may be tried again, the rate allows one, or counters
// are to be stored.
func (w *worker) pause(now time.Time) time.Duration {
	d := longest
	soon := func(at time.Time) { d = min(d, max(at.Sub(now), time.Millisecond)) }
	for _, u := range w.open {
		soon(u.due)
	}
	if w.unsaved {
		soon(w.saved.Add(saveEvery))
	}
	for _, l := range w.later {
		soon(l.due)
	}
	if now.Before(w.held) {
		soon(w.held)
	}
	if w.stale {
		soon(w.reread)
	}
	if wait := w.untilAllowed(now); w.replay.State == dedupe.ReplayRunning && len(w.left) > 0 && wait > 0 {
		soon(now.Add(wait))
	}
	return d
}

// untilAllowed is how long the rate allows nothing. Letters go a hundredth of a second's
// worth at a time: together they share a commit. A rate may be so low that the wait is
// more than a duration holds.
func (w *worker) untilAllowed(now time.Time) time.Duration {
	missing := max(1, w.replay.Rate/100) - w.limit.TokensAt(now)
	if missing < 1e-6 {
		return 0
	}
	wait := missing / w.replay.Rate * float64(time.Second)
	if !(wait < float64(longest)) { // a rate of 0 makes it infinite
		return longest
	}
	return max(time.Duration(wait), time.Nanosecond)
}

// again puts letters that were to be tried later back among the others.
func (w *worker) again(now time.Time) {
	var later []deferred
	for _, l := range w.later {
		if now.Before(l.due) {
			later = append(later, l)
		} else {
			w.left = append(w.left, l.item)
		}
	}
	w.later = later
}

// decide commits a step that is a decision. It reports success; what fails is decided
// again.
func (w *worker) decide(ctx context.Context, s Step) bool {
	now := time.Now()
	audit := dedupe.Audit{At: now, Target: "replay " + w.name, By: "dispatcher", Why: s.Why, Allowed: true, Detail: w.counts()}
	return w.save(ctx, func(r *dedupe.Replay) []dedupe.Audit {
		event := dedupe.ReplayFinish
		switch s.Do {
		case Pass:
			r.CanaryPassed, audit.Action = true, "replays_canary"
			return []dedupe.Audit{audit}
		case Stop:
			event = dedupe.ReplayStop
		}
		next, ok := r.State.Next(event)
		if !ok {
			return nil // an operator was faster
		}
		audit.Before, audit.After = string(r.State), string(next)
		enter(r, next, s.Why, now)
		audit.Action = "replays_" + string(event)
		return []dedupe.Audit{audit}
	})
}

// save stores what has changed, and what the change makes of it, on the replay as it
// is in the ledger: only operators and this worker write it.
func (w *worker) save(ctx context.Context, change func(*dedupe.Replay) []dedupe.Audit) bool {
	var after *dedupe.Replay
	receipt, err := w.cfg.Ledger.UpdateReplay(ctx, w.name, func(r *dedupe.Replay) dedupe.ReplayChange {
		after = r
		if r == nil {
			return dedupe.ReplayChange{}
		}
		r.Tally, r.Left, r.Skipped, r.Trouble = w.tally, len(w.left)+len(w.later), w.skipped, w.problem
		c := dedupe.ReplayChange{Replay: r, Items: w.dirty}
		if change != nil {
			c.Audit = change(r)
		}
		return c
	})
	w.saved = time.Now()
	if err != nil {
		w.trouble(err)
		return false
	}
	w.cfg.Publish(receipt.Audit)
	w.dirty, w.unsaved = nil, false
	if after != nil {
		w.replay = after
	}
	return true
}

// flush stores what is known when the worker ends.
func (w *worker) flush(ctx context.Context) {
	if w.unsaved {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), trouble)
		defer cancel()
		w.save(last, nil) // what is not stored now is found again at the next start
	}
}

// trouble holds the replay for a moment.
func (w *worker) trouble(err error) {
	w.held = time.Now().Add(trouble)
	if errors.Is(err, context.Canceled) {
		return
	}
	if problem := err.Error(); problem != w.problem {
		w.problem, w.unsaved = problem, true
		w.cfg.Log.Warn().Err(err).Str("replay", w.name).Msg("bulk replay waits; it goes on by itself")
	}
}
