// Package dispatcher takes one call from delivery to outcome: gather facts, let
// the gate decide inside the ledger's commit, act on what it said.
//
//	gather ─▶ [commit: gate.Before → claim + charge] ─▶ tool ─▶ classify
//	                ─▶ [commit: gate.After → settle + what is owed] ─▶ publish ─▶ settlement
//
// If the process dies between two arrows: before the first commit nothing has
// happened; after it the record is in flight and recovery hands it to gate.After as
// "no answer"; after the second commit what is owed is published at the next start.
//
// No policy lives here (that is dispatcher/gate), no stream message is received or
// acknowledged here (that is consumer), and no tool is known by name.
package dispatcher

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tollgate/dedupe"
	"tollgate/dispatcher/breaker"
	"tollgate/schemas"
)

// The causes with which a running attempt is ended, found by [context.Cause].
var (
	ErrTimeout   = errors.New("attempt timed out")
	ErrShutdown  = errors.New("dispatcher is shutting down")
	ErrCancelled = errors.New("call was cancelled")
)

// Requests finds the request of a call whose record does not hold it, by the
// stream message it came in. The error is [dedupe.ErrNotFound] when it is gone.
type Requests interface {
	Fetch(ctx context.Context, o schemas.Origin) (schemas.Request, error)
}

// Pauses says which tools an operator has paused.
type Pauses interface {
	Paused(tool string) bool
}

// Config is what a dispatcher stands on. Catalogue, Ledger, Publisher and Requests
// are required.
type Config struct {
	Catalogue  Catalogue
	Ledger     Ledger
	Publisher  Publisher
	Requests   Requests
	Pauses     Pauses         // nil: none
	Observer   Observer       // nil: nobody counts
	Term       func() bool    // whether this process still owns the ledger; nil: always
	Log        zerolog.Logger // one line a decision
	MaxBody    int            // bytes of arguments; 0: 960 KiB, the server's default payload less the reserve
	MaxOutcome int            // bytes of content and structured result together; 0: like MaxBody
	Skew       time.Duration  // allowance for clocks that differ; 0: none
	Grace      time.Duration  // what an executor may take past its timeout; 0: 2 s
	Queue      int            // endpoint calls that may wait for a slot or a breaker; 0: 1024
}

// Dispatcher decides and executes. It is safe for concurrent use.
type Dispatcher struct {
	cfg     Config
	deps    dependencies
	running running
	waiters waiters
	queue   chan struct{}

	mu    sync.Mutex // guards slots
	slots map[string]*Slots

	// Abandoned counts executors that had not returned at timeout + grace.
	Abandoned atomic.Int64
}

// New returns a dispatcher. It starts nothing.
func New(cfg Config) *Dispatcher {
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 1<<20 - schemas.BodyReserve
	}
	if cfg.MaxOutcome == 0 {
		cfg.MaxOutcome = cfg.MaxBody
	}
	if cfg.Grace == 0 {
		cfg.Grace = 2 * time.Second
	}
	if cfg.Queue == 0 {
		cfg.Queue = 1024
	}
	if cfg.Observer == nil {
		cfg.Observer = unobserved{}
	}
	if cfg.Term == nil {
		cfg.Term = func() bool { return true }
	}
	return &Dispatcher{
		cfg: cfg, deps: dependencies{byName: map[string]*dependency{}},
		running: running{calls: map[string]runningCall{}, held: map[string]bool{}}, waiters: waiters{byCall: map[string][]chan *schemas.Outcome{}},
		queue: make(chan struct{}, cfg.Queue), slots: map[string]*Slots{},
	}
}

// Slots returns the concurrency cap of a tool.
func (d *Dispatcher) Slots(t *Tool) *Slots {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.slots[t.Name]
	if !ok {
		s = newSlots(t.Concurrency, t.JobsShare)
		d.slots[t.Name] = s
	}
	return s
}

// Lease is how long a claim of a call with this timeout holds.
func (d *Dispatcher) Lease(timeout time.Duration) time.Duration { return timeout + d.cfg.Grace }

// Catalogue is what the dispatcher serves.
func (d *Dispatcher) Catalogue() Catalogue { return d.cfg.Catalogue }

// Health is the live state of a dependency, for people.
type Health struct {
	Breaker string  `json:"breaker"`
	Tokens  float64 `json:"retry_quota_tokens"`
}

// Health returns the live state of a dependency.
func (d *Dispatcher) Health(name string) Health {
	now := time.Now()
	dep := d.deps.get(name, d.cfg.Catalogue, now)
	return Health{Breaker: dep.breaker.State(), Tokens: dep.tokens(now)}
}

// Reopens says whether a dependency's breaker is open now and until when nothing
// should be pulled for it. After that exactly one attempt is let through, and while
// that one runs whatever else is pulled could only be handed back.
func (d *Dispatcher) Reopens(name string) (until time.Time, open bool) {
	now := time.Now()
	dep := d.deps.get(name, d.cfg.Catalogue, now)
	switch dep.breaker.State() {
	case "open":
		return dep.breaker.Reopens(now), true
	case "half-open":
		if dep.breaker.Probing() {
			now = now.Add(breaker.ProbeWait)
		}
		return now, true
	}
	return time.Time{}, false
}

// act does what a terminal or armed record owes and says how the delivery ends.
// The commit is durable; dying here means that it is published at the next start.
func (d *Dispatcher) act(ctx context.Context, r *dedupe.Record, receipt dedupe.Receipt) Settlement {
	s := Settlement{Ack: true, Call: r.Call, Pending: !r.State.Terminal()}
	if r.State.Terminal() {
		s.Outcome = r.Outcome
	}
	if r.Slot != 0 && !d.PublishSlot(ctx, r) {
		s.Ack, s.Delay = false, time.Second
	}
	// After the letter: whoever hears of a failure finds its letter.
	if receipt.Result != 0 {
		d.cfg.Publisher.Result(receipt.Result, r.Root, r.Outcome)
	}
	if len(receipt.Audit) > 0 {
		d.cfg.Publisher.Audit(receipt.Audit)
	}
	if s.Outcome != nil {
		d.waiters.tell(s.Outcome)
	}
	return s
}

// PublishReceipt sends what an operator's commit owes, its slot excepted.
func (d *Dispatcher) PublishReceipt(r *dedupe.Record, receipt dedupe.Receipt) {
	if receipt.Result != 0 {
		d.cfg.Publisher.Result(receipt.Result, r.Root, r.Outcome)
		d.waiters.tell(r.Outcome)
	}
	d.cfg.Publisher.Audit(receipt.Audit)
}

// PublishSlot publishes what a record owes and notes it in the ledger. It reports
// success; after a failure the publisher keeps trying, and so does every start.
func (d *Dispatcher) PublishSlot(ctx context.Context, r *dedupe.Record) bool {
	if err := d.cfg.Publisher.Slot(ctx, r); err != nil {
		d.cfg.Log.Error().Err(err).Str("call", r.Call).Stringer("slot", r.Slot).Msg("what the record owes is not stored yet; it will be tried again")
		return false
	}
	d.cfg.Ledger.Published(Publication{Call: r.Call, Token: r.Token, Generation: r.Generation, Slot: r.Slot})
	return true
}
