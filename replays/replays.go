// Package replays is the bulk replays of dead letters: the set is frozen when one is
// made, stored in the ledger, and replayed by the dispatcher at its rate, whoever goes
// away meanwhile. One can be watched, paused, resumed and cancelled, and stops by
// itself when too many letters die again.
//
//	running ──pause──▶ paused ──resume──▶ running          stop: the rule
//	   │ ────stop────▶ stopped ─resume──▶ running
//	   ├──finish──▶ done            running, paused, stopped ──cancel──▶ cancelled
//
// A letter is replayed exactly once, whatever is cut off where: its next generation and
// the note that this replay has opened it are one commit. Counters are sums of such
// notes, and are made again from them at every start.
//
// Whether one letter may be replayed is not decided here (that is deadletter), and
// nothing is dispatched here.
package replays

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tollgate/deadletter"
	"tollgate/dedupe"
)

// Ledger is where bulk replays are kept.
type Ledger interface {
	deadletter.Runs
	CreateReplay(ctx context.Context, r dedupe.Replay, items []dedupe.ReplayItem, audit ...dedupe.Audit) (string, dedupe.Receipt, error)
	UpdateReplay(ctx context.Context, name string, m dedupe.ReplayMutation) (dedupe.Receipt, error)
	DropReplay(ctx context.Context, name string) error
	Replay(name string) (*dedupe.Replay, error)
	Replays() ([]*dedupe.Replay, error)
	ReplayItems(name string, from int, f func(dedupe.ReplayItem) bool) error
}

// Config is what a runner stands on. All fields are required.
type Config struct {
	Ledger  Ledger
	Letters *deadletter.Operations
	List    func(context.Context, deadletter.Filter) (deadletter.Page, error)
	Publish func([]dedupe.Audit)
	Keep    time.Duration // how long a replay that is over is remembered
	Log     zerolog.Logger
}

// Runner carries out bulk replays. It is safe for concurrent use.
type Runner struct {
	cfg  Config
	news chan struct{} // capacity 1: there are new replays

	mu      sync.Mutex // guards workers and waiting
	workers map[string]*worker
	waiting []string // made, and not yet begun
}

// New returns a runner. Nothing is replayed before Run.
func New(cfg Config) *Runner {
	return &Runner{cfg: cfg, news: make(chan struct{}, 1), workers: map[string]*worker{}}
}

// Run carries out the replays that are not over, and those made meanwhile, until ctx
// ends. What is being committed then is finished; the next Run does the rest.
func (r *Runner) Run(ctx context.Context) error {
	all, err := r.cfg.Ledger.Replays()
	if err != nil {
		return err
	}
	for _, replay := range all {
		if !replay.State.Terminal() || replay.Tally.Open() > 0 {
			r.begin(replay.Name)
		}
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	every := min(time.Hour, r.cfg.Keep/4)
	forget := time.NewTimer(min(time.Minute, every)) // soon: one that is restarted often would never come to it
	defer forget.Stop()
	for {
		for _, w := range r.started() {
			workers.Go(func() {
				w.run(ctx)
				r.ended(w)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.news:
		case <-forget.C:
			forget.Reset(every)
			r.forget(ctx)
		}
	}
}

// begin has a replay carried out by Run.
func (r *Runner) begin(name string) {
	r.mu.Lock()
	r.waiting = append(r.waiting, name)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// started makes workers of what waits. A replay never has two.
func (r *Runner) started() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*worker
	for _, name := range r.waiting {
		if r.workers[name] == nil {
			w := newWorker(r.cfg, name)
			r.workers[name] = w
			all = append(all, w)
		}
	}
	r.waiting = nil
	return all
}

func (r *Runner) ended(w *worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.workers, w.name)
}

// poke tells the worker of a replay that an operator has changed it.
func (r *Runner) poke(name string) {
	r.mu.Lock()
	w := r.workers[name]
	r.mu.Unlock()
	if w != nil {
		w.poke()
	}
}

// Create freezes the set, stores the replay, and has it carried out. One that is refused
// is audited too.
func (r *Runner) Create(ctx context.Context, q Query) (*dedupe.Replay, error) {
	p, err := r.Plan(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case p.Would == 0:
		return nil, r.refuse(ctx, q, &Refused{Why: fmt.Sprintf("none of %d dead letters can be replayed", p.Matched), Try: "tollgate dlq replay --dry-run with the same filter says why", Nothing: true})
	case q.AtMost > 0 && p.Would > q.AtMost:
		return nil, r.refuse(ctx, q, &Refused{Why: fmt.Sprintf("%d dead letters would be replayed by now, and %d were confirmed", p.Would, q.AtMost), Try: "look again with --dry-run"})
	}
	now := time.Now()
	replay := q.replay(p.Would, now)
	replay.Matched, replay.Skipped = p.Matched, p.Skipped
	audit := dedupe.Audit{At: now, Tenant: q.Filter.Tenant, Action: "replays_create", By: q.By, Why: q.Why, Allowed: true,
		Detail: fmt.Sprintf("%s: %d letters of %d, %g/s, %d in flight, canary %d, stops above %s", replay.Scope, p.Would, p.Matched, replay.Rate, replay.InFlight, replay.Canary, percent(replay.StopAbove))}
	name, receipt, err := r.cfg.Ledger.CreateReplay(ctx, replay, p.items, audit)
	if errors.Is(err, dedupe.ErrExists) {
		return nil, r.refuse(ctx, q, &Refused{Name: name, Why: "there is one of this name already", Try: "another --name"})
	}
	if err != nil {
		return nil, err
	}
	r.cfg.Publish(receipt.Audit)
	r.begin(name)
	return r.cfg.Ledger.Replay(name)
}

// refuse audits that a replay was not made, and why.
func (r *Runner) refuse(ctx context.Context, q Query, why *Refused) error {
	a := dedupe.Audit{At: time.Now(), Tenant: q.Filter.Tenant, Action: "replays_create", By: q.By, Why: q.Why, Detail: why.Why}
	if why.Name != "" {
		a.Target = "replay " + why.Name
	}
	receipt, err := r.cfg.Ledger.UpdateReplay(ctx, why.Name, func(*dedupe.Replay) dedupe.ReplayChange {
		return dedupe.ReplayChange{Audit: []dedupe.Audit{a}}
	})
	r.cfg.Publish(receipt.Audit)
	if err != nil {
		return errors.Join(why, err)
	}
	return why
}

// forget drops replays that were over long ago. Their audit entries stay.
func (r *Runner) forget(ctx context.Context) {
	all, err := r.cfg.Ledger.Replays()
	for _, replay := range all {
		if !replay.Ended.IsZero() && time.Since(replay.Ended) > r.cfg.Keep && err == nil {
			err = r.cfg.Ledger.DropReplay(ctx, replay.Name)
		}
	}
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn().Err(err).Msg("old bulk replays not forgotten; the next round goes on")
	}
}
