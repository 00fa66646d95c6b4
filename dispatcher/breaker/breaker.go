// Package breaker is a dependency's circuit breaker: a thin face on gobreaker
// that knows neutral results and when it will reopen.
//
// It counts attempts, not calls, and decides nothing about a call: an open breaker
// is a fact for the gate.
package breaker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Result is what one attempt says about the dependency. Zero is neutral.
type Result uint8

// The results. A neutral one neither opens nor closes the breaker and frees the
// probe's slot: client errors, throttling, cancellations.
const (
	Neutral Result = iota
	Success
	Failure
)

// Limits set a breaker. The zero value is off.
type Limits struct {
	Consecutive int
	Ratio       float64
	Least       int
	Cooldown    time.Duration
}

// ProbeWait is how long to wait while somebody else's probe is under way.
const ProbeWait = 250 * time.Millisecond

// window is how far back Ratio looks.
const window = time.Minute

var (
	errFailed  = errors.New("failed")
	errNeutral = errors.New("neutral")
)

// Breaker guards one dependency. A nil Breaker is always closed.
type Breaker struct {
	two    *gobreaker.TwoStepCircuitBreaker[struct{}]
	reopen atomic.Int64 // Unix nanoseconds
}

// New returns a breaker, or nil when l is the zero value.
func New(name string, l Limits) *Breaker {
	if l == (Limits{}) {
		return nil
	}
	b := &Breaker{}
	b.two = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, MaxRequests: 1, Timeout: l.Cooldown, Interval: window, BucketPeriod: window / 6,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			seen := c.TotalSuccesses + c.TotalFailures
			return l.Consecutive > 0 && int(c.ConsecutiveFailures) >= l.Consecutive ||
				l.Ratio > 0 && int(seen) >= l.Least && float64(c.TotalFailures) >= l.Ratio*float64(seen)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.reopen.Store(time.Now().Add(l.Cooldown).UnixNano())
			}
		},
	})
	return b
}

// Allow asks to attempt. When it may, done must be called once with the result.
// When it may not, done is nil and until is when asking again makes sense.
func (b *Breaker) Allow(now time.Time) (done func(Result), until time.Time) {
	if b == nil {
		return func(Result) {}, time.Time{}
	}
	finish, err := b.two.Allow()
	switch {
	case errors.Is(err, gobreaker.ErrTooManyRequests):
		return nil, now.Add(ProbeWait)
	case err != nil:
		return nil, b.Reopens(now)
	}
	return func(r Result) { finish([...]error{errNeutral, nil, errFailed}[r]) }, time.Time{}
}

// Reopens returns when an open breaker lets a probe pass, at the earliest now.
func (b *Breaker) Reopens(now time.Time) time.Time {
	at := time.Unix(0, b.reopen.Load()).Add(time.Millisecond) // gobreaker compares strictly
	if at.Before(now) {
		return now
	}
	return at
}

// Probing reports whether a half-open breaker's one probe is under way.
func (b *Breaker) Probing() bool {
	if b == nil || b.two.State() != gobreaker.StateHalfOpen {
		return false
	}
	c := b.two.Counts()
	return c.Requests > c.TotalExclusions
}

// State is closed, half-open or open; "off" without a breaker.
func (b *Breaker) State() string {
	if b == nil {
		return "off"
	}
	return b.two.State().String()
}
