package dispatcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"tollgate/dedupe"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// ledgerRetry is how long a message is handed back for when the ledger cannot commit.
const ledgerRetry = 2 * time.Second

// Handle takes one delivery as far as it goes now and says how it ends. It never
// panics on data, and it returns an acknowledgement only after every effect is
// durable. ctx ends with [ErrShutdown] when running attempts must be given up.
func (d *Dispatcher) Handle(ctx context.Context, dl Delivery) Settlement {
	return d.handle(ctx, d.gather(dl, time.Now()))
}

func (d *Dispatcher) handle(ctx context.Context, c *call) Settlement {
	if !d.cfg.Term() {
		return d.conclude(ctx, c, &admission{decision: gate.Before(gate.BeforeFacts{LedgerDown: true})}, dedupe.Receipt{})
	}
	if c.malformed != nil || c.tooLarge {
		dec := gate.Before(gate.BeforeFacts{Malformed: c.malformed != nil, TooLarge: c.tooLarge})
		return d.conclude(ctx, c, &admission{decision: dec, problem: c.malformed}, dedupe.Receipt{})
	}
	p := d.permit(c)
	a, receipt, err := d.commitBefore(ctx, c, p)
	if err != nil {
		p.release()
		d.cfg.Log.Error().Err(err).Str("call", c.id).Msg("nothing was claimed")
		a = &admission{decision: gate.Before(gate.BeforeFacts{LedgerDown: true})}
	}
	if a.decision.Action == gate.Run {
		return d.run(ctx, c, a, p)
	}
	p.release()
	s := d.conclude(ctx, c, a, receipt)
	if a.decision.Action == gate.Defer {
		s.Delay = holdDelay(p, a.latest)
	}
	return s
}

// permit asks for everything an attempt needs beside the budget: that the tool is
// not paused, a concurrency slot, the breaker, an owed token and the rate.
func (d *Dispatcher) permit(c *call) *permit {
	now := time.Now()
	switch {
	case c.tool == nil:
		return &permit{}
	case d.cfg.Pauses != nil && d.cfg.Pauses.Paused(c.Tool):
		return &permit{hold: gate.Paused, until: now.Add(time.Second)}
	case !c.slot:
		return &permit{hold: gate.Concurrency, until: now}
	}
	owes := c.Retry && c.Header.Get(schemas.HeaderOwes) != ""
	return d.deps.get(c.tool.Dependency, d.cfg.Catalogue, now).acquire(now, owes)
}

// holdDelay is how long a deferred delivery stays away: until the hold ends, with
// jitter so that everybody does not return at once, but not past the last start
// that fits.
func holdDelay(p *permit, latest time.Time) time.Duration {
	now := time.Now()
	at := later(p.until, now).Add(time.Duration(rand.Int64N(int64(time.Second))))
	if !latest.IsZero() && latest.Before(at) {
		at = latest
	}
	return max(10*time.Millisecond, at.Sub(now))
}

// commitBefore lets the gate decide inside the commit and stores what it decided.
func (d *Dispatcher) commitBefore(ctx context.Context, c *call, p *permit) (*admission, dedupe.Receipt, error) {
	now := time.Now()
	var a *admission
	receipt, err := d.cfg.Ledger.Update(ctx, c.ref, func(v dedupe.View) dedupe.Change {
		a = &admission{record: v.Record, run: v.Run}
		f := c.facts(v, a, now, p)
		a.decision = gate.Before(f)
		a.problem = c.badArgs
		switch a.decision.Action {
		case gate.Run:
			a.record = c.claim(v, now, d.Lease)
			a.run.Charge(a.record.Run, a.record.Terms.Write()) // checked above, in this same commit
			return dedupe.Change{Record: a.record, Run: a.run}
		case gate.Settle:
			return c.settleUnrun(v, a, now)
		default:
			return dedupe.Change{}
		}
	})
	return a, receipt, err
}

// open returns the record a fresh call starts with, or the next generation of a
// released one.
func (c *call) open(v dedupe.View, now time.Time) *dedupe.Record {
	payer, _ := c.payer(v.Record)
	r := &dedupe.Record{
		Call: c.id, Tenant: c.Tenant, Lane: c.Lane, Root: schemas.Root(c.request.Run), Run: payer, Tool: c.Tool,
		Key: c.request.Key, DownstreamKey: c.id, Fingerprint: c.fingerprint, ToolCallID: c.request.ToolCallID,
		Published: c.published, Deadline: c.deadline, Origin: c.Origin,
		Terms: Terms(c.tool, c.policy, c.deadline.Sub(c.published)), EditedFrom: c.editedFrom(),
	}
	if c.tool.AgentKey {
		r.DownstreamKey = c.request.Key
	}
	if old := v.Record; old != nil {
		r.Generation, r.Attempts, r.Fence, r.DownstreamKey = old.Generation+1, old.Attempts, old.Fence, old.DownstreamKey
		r.FirstAttempt, r.Token, r.Payers = old.FirstAttempt, old.Token+1, old.Payers
		if old.Run != r.Run || old.Terms.Write() != r.Terms.Write() {
			r.PaidUntilNow(old.Run, old.Terms.Write())
		}
	}
	if r.OnLane = !c.Endpoint; c.Endpoint { // no stream holds the message
		r.Request = &c.request
	}
	return r
}

// editedFrom is the letter that the message says it was made of. An agent may say so
// too; whoever shows it asks the letter's record.
func (c *call) editedFrom() string {
	id := c.request.Header.Get(schemas.HeaderReplayOf)
	if call, _, err := dedupe.ParseLetterID(id); err != nil || !dedupe.ValidCallID(call) {
		return ""
	}
	return id
}

// claim is the record of the attempt that is about to start.
func (c *call) claim(v dedupe.View, now time.Time, lease func(time.Duration) time.Duration) *dedupe.Record {
	r := v.Record
	from := dedupe.State(0)
	if r == nil || r.State.Terminal() {
		r = c.open(v, now)
	} else {
		from = r.State
	}
	r.State, _ = from.Next(dedupe.Claim)
	waited := now.Sub(r.Published)
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Generation == r.Generation {
		waited = now.Sub(r.Attempts[n-1].Ended)
	}
	r.Slot, r.OwesToken = 0, false
	r.Fence++
	r.Tries++
	r.Epoch, r.Lease = v.Epoch, now.Add(lease(r.Terms.Timeout))
	if r.FirstAttempt.IsZero() {
		r.FirstAttempt = now
	}
	r.Attempts = appendAttempt(r.Attempts, schemas.Attempt{N: r.Tries, Generation: r.Generation,
		Started: now, WaitedMS: max(0, waited.Milliseconds()), Trace: c.request.Header.Get(schemas.HeaderTraceParent)})
	return r
}

// appendAttempt keeps the newest attempts of a bounded history.
func appendAttempt(history []schemas.Attempt, a schemas.Attempt) []schemas.Attempt {
	if over := len(history) + 1 - dedupe.MaxAttemptsKept; over > 0 {
		history = history[over:]
	}
	return append(history, a)
}

// settleUnrun ends a call before this attempt: cancelled, exhausted, repair.
func (c *call) settleUnrun(v dedupe.View, a *admission, now time.Time) dedupe.Change {
	r := v.Record
	if r == nil || r.State.Terminal() {
		r = c.open(v, now)
	}
	if a.decision.Status == schemas.Repair {
		a.run.Repairs++
	}
	if a.decision.Code == schemas.CodeLedgerRecovered {
		r.Ambiguous = true
	}
	finish(r, a.run, a.decision, ending{now: now, request: &c.request, problem: a.problem, deadline: r.Deadline})
	a.record = r
	return dedupe.Change{Record: r, Run: a.run, Result: true}
}

// conclude does what a decision other than Run asks for.
func (d *Dispatcher) conclude(ctx context.Context, c *call, a *admission, receipt dedupe.Receipt) Settlement {
	d.log(c, a)
	if a.decision.Action != gate.Refuse { // a refusal counts once its letter is stored
		d.observe(c, a, "")
	}
	s := Settlement{Call: c.id}
	switch a.decision.Action {
	case gate.Refuse:
		return d.refuse(ctx, c, a)
	case gate.Answer:
		s.Ack, s.Outcome = true, repeat(a.record.Outcome)
		if c.source(a.record) == gate.Submission && !c.Endpoint {
			d.cfg.Publisher.Result(0, a.record.Root, s.Outcome) // somebody asked again and may be listening
		}
	case gate.Attach:
		s.Ack, s.Pending = true, true
	case gate.Settle:
		return d.act(ctx, a.record, receipt)
	case gate.Defer:
		s.Hold, s.Delay = true, time.Second
	case gate.Nak:
		s.Delay, s.Later = nakDelay(a), a.record != nil
	default:
		panic(fmt.Sprintf("dispatcher: gate.Before decided %v", a.decision.Action))
	}
	return s
}

// nakDelay is when a handed-back delivery should come again.
func nakDelay(a *admission) time.Duration {
	now := time.Now()
	switch {
	case a.record == nil:
		return ledgerRetry
	case a.record.State.Running():
		return max(50*time.Millisecond, a.record.Lease.Sub(now))
	case a.record.State == dedupe.Waiting && now.Before(a.record.Due):
		return max(time.Millisecond, a.record.Due.Sub(now))
	default:
		return time.Second
	}
}

// refuse answers a message that is no call. Its letter, if it leaves one, is stored
// before the message is acknowledged.
func (d *Dispatcher) refuse(ctx context.Context, c *call, a *admission) Settlement {
	o := refusal(c, a.decision, a.problem)
	reason := gate.RefusalReason(a.decision.Code, c.Lane == schemas.Jobs)
	if c.Endpoint {
		reason = "" // the caller has the answer in hand, and no stream held the message
	}
	if err := d.cfg.Publisher.Refused(ctx, c.Delivery, o, reason); err != nil {
		d.cfg.Log.Error().Err(err).Str("subject", c.Origin.Subject).Msg("the refusal is not stored yet; the message stays")
		return Settlement{Delay: time.Second, Outcome: o}
	}
	d.observe(c, a, reason)
	return Settlement{Ack: true, Outcome: o, Call: c.id}
}

func repeat(o *schemas.Outcome) *schemas.Outcome {
	c := *o
	c.Repeated = true
	return &c
}
