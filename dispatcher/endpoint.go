package dispatcher

import (
	"context"
	"time"

	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// Do admits a call that came by request and reply, straight into the ledger, and
// returns its outcome. It passes the same gate as a stream message; what a stream
// message would be handed back for, it waits for in a bounded queue. Attempts run
// under work, as those of [Dispatcher.Handle] do. When ctx ends first, at a stop,
// nobody waits any longer: what is not admitted is turned away, and what waits for
// its next attempt goes on elsewhere, which the answer says.
func (d *Dispatcher) Do(ctx, work context.Context, dl Delivery) *schemas.Outcome {
	dl.Endpoint, dl.Lane = true, schemas.Calls
	c := d.gather(dl, time.Now())
	if c.id == "" {
		return d.handle(work, c).Outcome
	}
	wait := ctx
	if !c.deadline.IsZero() { // nobody waits for an answer that comes later than this
		var cancel context.CancelFunc
		wait, cancel = context.WithDeadline(ctx, c.deadline.Add(d.cfg.Grace+5*time.Second))
		defer cancel()
	}
	outcome, leave := d.waiters.join(c.id)
	defer leave()
	s := d.admitQueued(work, wait, c)
	if s.Outcome != nil {
		return s.Outcome
	}
	if !s.Pending {
		return refusal(c, gate.Decision{Code: schemas.CodeLedgerDown}, nil)
	}
	select {
	case o := <-outcome:
		return o
	case <-wait.Done():
		return pending(c)
	}
}

// admitQueued handles the call, waiting for a slot, a breaker or a rate as long as
// an attempt still fits. An attempt it starts goes on when wait has ended. A slot
// that was waited for is kept for the next try: nobody overtakes.
func (d *Dispatcher) admitQueued(work, wait context.Context, c *call) Settlement {
	queued := false
	release := d.tryslot(c)
	defer func() { release() }()
	for {
		s := d.handle(work, c)
		switch {
		case s.Later: // its letter is not stored yet: the answer is a moment away
			if pause(wait, laterPause); wait.Err() != nil {
				return Settlement{Pending: true}
			}
			continue
		case !s.Hold:
			return s
		case !queued:
			select {
			case d.queue <- struct{}{}:
				queued = true
				defer func() { <-d.queue }()
			default:
				return Settlement{Outcome: refusal(c, gate.Decision{Code: schemas.CodeQueueFull}, nil)}
			}
		}
		if c.slot {
			release()
			pause(wait, s.Delay)
			release = d.tryslot(c)
		} else {
			release = d.slotWithin(wait, c, s.Delay)
		}
		if wait.Err() != nil {
			return Settlement{}
		}
	}
}

// laterPause is how long an endpoint call waits for a record to be published.
const laterPause = 50 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// tryslot takes a concurrency slot if one is free; whether it did is a fact for the gate.
func (d *Dispatcher) tryslot(c *call) (release func()) {
	if c.tool == nil {
		return func() {}
	}
	release, c.slot = d.Slots(c.tool).TryAcquire(false)
	if !c.slot {
		return func() {}
	}
	return release
}

// slotWithin waits for a slot, at most for the delay.
func (d *Dispatcher) slotWithin(ctx context.Context, c *call, delay time.Duration) (release func()) {
	ctx, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	release, err := d.Slots(c.tool).Acquire(ctx, false)
	if c.slot = err == nil; !c.slot {
		return func() {}
	}
	return release
}

// pending tells a caller that its call was accepted and goes on.
func pending(c *call) *schemas.Outcome {
	o := refusal(c, gate.Decision{}, nil)
	o.Status, o.NextAction = schemas.UnknownOutcome, schemas.Reconcile // not unavailable: it may be running
	o.Error.Code, o.Error.Message = schemas.CodeStillRunning, "The call was accepted and goes on, but its outcome is not known yet. It will be published on the results subject; ask again with the same key to get it."
	o.Content = []schemas.Content{{Type: "text", Text: o.Error.Message}}
	return o
}
