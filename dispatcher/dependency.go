package dispatcher

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tollgate/budget"
	"tollgate/dispatcher/breaker"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
)

// dependency is the live state of what tools share: breaker, retry quota, rate.
type dependency struct {
	breaker *breaker.Breaker
	rate    *rate.Limiter // nil: no limit
	limits  budget.QuotaLimits

	mu    sync.Mutex // guards quota
	quota budget.Quota
}

// dependencies holds them by name.
type dependencies struct {
	mu     sync.Mutex // guards byName
	byName map[string]*dependency
}

func (ds *dependencies) get(name string, c Catalogue, now time.Time) *dependency {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d, ok := ds.byName[name]; ok {
		return d
	}
	spec, _ := c.Dependency(name)
	d := &dependency{limits: spec.Quota, quota: budget.NewQuota(spec.Quota, now), breaker: breaker.New(name, breaker.Limits(spec.Breaker))}
	if spec.Rate > 0 {
		d.rate = rate.NewLimiter(rate.Limit(spec.Rate), max(1, spec.Burst))
	}
	ds.byName[name] = d
	return d
}

// withdraw takes the token of one retry and reports whether there was one.
func (d *dependency) withdraw(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, ok := d.quota.Refill(d.limits, now).Withdraw()
	d.quota = q
	return ok
}

// giveBack returns a token that was taken but not used for a retry.
func (d *dependency) giveBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quota.Tokens = min(d.limits.Burst, d.quota.Tokens+1)
}

// succeed deposits what a success earns.
func (d *dependency) succeed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quota = d.quota.Deposit(d.limits)
}

func (d *dependency) tokens(now time.Time) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.quota.Refill(d.limits, now).Tokens
}

// permit is the right to make one attempt, or the reason not to.
type permit struct {
	hold  gate.Hold
	until time.Time // when the hold may end; zero: unknown
	undo  []func()
	done  func(breaker.Result)
}

// acquire asks the dependency for one attempt. A job that owes a token pays it here.
func (d *dependency) acquire(now time.Time, owes bool) *permit {
	p := &permit{}
	done, until := d.breaker.Allow(now)
	if done == nil {
		p.hold, p.until = gate.BreakerOpen, until
		return p
	}
	p.done = done
	if owes {
		if !d.withdraw(now) {
			return p.held(gate.OwedToken, now.Add(time.Second))
		}
		p.undo = append(p.undo, d.giveBack)
	}
	if d.rate != nil {
		r := d.rate.ReserveN(now, 1)
		if wait := r.DelayFrom(now); wait > 0 {
			r.CancelAt(now)
			return p.held(gate.RateLimit, now.Add(wait))
		}
		p.undo = append(p.undo, func() { r.CancelAt(now) })
	}
	return p
}

func (p *permit) held(h gate.Hold, until time.Time) *permit {
	p.release()
	p.hold, p.until = h, until
	return p
}

// release gives everything back: no attempt was made.
func (p *permit) release() {
	for _, undo := range p.undo {
		undo()
	}
	p.undo = nil
	p.report(breaker.Neutral)
}

// report tells the breaker how the attempt went. The first report counts.
func (p *permit) report(r breaker.Result) {
	if p.done != nil {
		p.done(r)
		p.done = nil
	}
}

// breakerResult is what a verdict says about the dependency's health. Throttling
// delays but does not open; our own interruptions say nothing about it.
func breakerResult(v classify.Verdict, cause error) breaker.Result {
	switch {
	case v.OK():
		return breaker.Success
	case errors.Is(cause, ErrShutdown), errors.Is(cause, ErrCancelled), v.Throttled, v.Class != classify.Transient:
		return breaker.Neutral
	default:
		return breaker.Failure
	}
}
