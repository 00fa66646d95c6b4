package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// poisonAt is the recovery that is one too many.
const poisonAt = 4

// settling is an attempt that has ended, on its way into the ledger.
type settling struct {
	record     *dedupe.Record // as claimed: its fence must still be the ledger's
	verdict    classify.Verdict
	request    *schemas.Request // nil: lost
	recovered  bool             // the process that made it died
	reconciled bool             // the verdict is the reconcile hook's
}

// settle lets the gate decide what follows an attempt, inside the commit, and
// keeps trying while the ledger cannot commit. A nil record means that the fence
// was stale and nothing changed.
func (d *Dispatcher) settle(ctx context.Context, s settling) (gate.Decision, *dedupe.Record, dedupe.Receipt, error) {
	again := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		decision, r, receipt, err := d.commitAfter(ctx, s)
		if err == nil || !errors.Is(err, dedupe.ErrUnavailable) {
			return decision, r, receipt, err
		}
		select {
		case <-time.After(again.NextBackOff()):
		case <-ctx.Done():
			// The record stays in flight; try the commit once more without the
			// context, since an interrupted attempt is worth recording.
			return d.commitAfter(context.WithoutCancel(ctx), s)
		}
	}
}

func (d *Dispatcher) commitAfter(ctx context.Context, s settling) (gate.Decision, *dedupe.Record, dedupe.Receipt, error) {
	now := time.Now()
	dep := d.deps.get(s.record.Terms.Dependency, d.cfg.Catalogue, now)
	needsToken := !s.verdict.OK() && s.verdict.Class == classify.Transient && !s.recovered && !s.reconciled
	token := needsToken && dep.withdraw(now)

	var decision gate.Decision
	var after *dedupe.Record
	var spent *budget.Run
	receipt, err := d.cfg.Ledger.Update(ctx, s.record.Ref(), func(v dedupe.View) dedupe.Change {
		after, spent = v.Record, v.Run
		if after == nil || !after.State.Running() || after.Fence != s.record.Fence || after.Epoch != s.record.Epoch || spent == nil {
			after = nil
			return dedupe.Change{}
		}
		delay := s.book(after, spent, now)
		f := d.afterFacts(s, after, spent, now, delay)
		f.QuotaEmpty = needsToken && !token
		decision = gate.After(f)
		return d.apply(s, after, spent, decision, now, delay)
	})
	if token && (err != nil || decision.Action != gate.Retry || decision.Owes) {
		dep.giveBack()
	}
	if err == nil && after != nil {
		d.logAfter(after, spent, decision, s.verdict, dep.tokens(now), dep.breaker.State())
		d.observeAfter(after, decision, &s.verdict)
	}
	return decision, after, receipt, err
}

// book writes what the attempt was into the record and gives back what was not
// used. It returns the delay that a retry would wait.
func (s settling) book(r *dedupe.Record, run *budget.Run, now time.Time) time.Duration {
	v := s.verdict
	a := &r.Attempts[len(r.Attempts)-1]
	a.Ended, a.Class, a.Phase, a.Code, a.Message = now, v.Class.String(), v.Phase.String(), v.Code, clip(v.Message)
	a.StopReason, a.RetryAfterMS, a.Reached = string(v.StopReason), v.RetryAfter.Milliseconds(), v.Reached()
	if v.Phase == classify.NotSent && r.Terms.Write() && !a.Reconcile {
		run.Refund(r.Run)
	}
	if !s.reconciled || v.OK() {
		r.Ambiguous = gate.Ambiguous(r.Ambiguous, r.Terms.Write(), v)
	}
	if s.recovered {
		r.Recoveries++
	}
	run.Used = now
	return delay(r.Terms, v, r.Tries)
}

// delay is the wait before the next attempt: at least what the tool stated, else
// full jitter below our own ceiling for the n-th failure.
func delay(t dedupe.Terms, v classify.Verdict, n int) time.Duration {
	if v.RetryAfter > 0 {
		return gate.Stated(v.RetryAfter, rand.Float64())
	}
	base := t.BackoffBase
	if v.Throttled {
		base = t.ThrottleBase
	}
	ceiling := gate.Ceiling(base, t.BackoffCap, n)
	if ceiling <= 0 {
		return 0
	}
	// A factor of 1 around half the ceiling is uniform in [0, ceiling].
	b := backoff.NewExponentialBackOff(backoff.WithInitialInterval(ceiling/2), backoff.WithRandomizationFactor(1),
		backoff.WithMultiplier(1), backoff.WithMaxInterval(ceiling), backoff.WithMaxElapsedTime(0))
	return min(ceiling, max(0, b.NextBackOff()))
}

func (d *Dispatcher) afterFacts(s settling, r *dedupe.Record, run *budget.Run, now time.Time, delay time.Duration) gate.AfterFacts {
	v, t := s.verdict, r.Terms
	next := now.Add(delay)
	deadline, _ := run.Deadline(r.Run)
	fit := gate.FitAt(now, next, t.Timeout, gate.Margin(t.Window), r.Deadline, deadline)
	f := gate.AfterFacts{
		OK: v.OK(), Class: v.Class, Phase: v.Phase, For: v.For, Stop: v.StopReason != "",
		Poison: r.Recoveries >= poisonAt, BodyLost: s.request == nil, Reconciled: s.reconciled && !v.OK(),
		Unsafe: t.UnsafeAt(next, r.FirstAttempt), Ambiguous: r.Ambiguous,
		Cancelled:    r.Cancel != "" || run.Cancelled(r.Run),
		AttemptsLeft: r.Tries < t.Attempts, Budget: run.Check(r.Run, t.Write()), Fit: fit,
		RepairsLeft: run.Repairs < t.MaxRepairs, WaitTooLong: v.RetryAfter > t.MaxRetryAfter, Job: r.Lane == schemas.Jobs,
	}
	if t.Reconcile != "" && s.request != nil && r.Reconciled != r.Generation+1 {
		affordable := run.Check(r.Run, false).Dimension == 0
		fits := gate.FitAt(now, now, t.Timeout, gate.Margin(t.Window), r.Deadline, deadline) == gate.Fits
		f.CanReconcile = affordable && fits && !s.recovered
	}
	return f
}

// apply turns the decision into the change that is committed.
func (d *Dispatcher) apply(s settling, r *dedupe.Record, run *budget.Run, dec gate.Decision, now time.Time, delay time.Duration) dedupe.Change {
	a := &r.Attempts[len(r.Attempts)-1]
	a.Decision = describe(dec)
	switch dec.Action {
	case gate.Retry:
		a.DelayMS = delay.Milliseconds()
		arm(r, s.request, now.Add(delay), dec.Owes)
		u := usage(run, r.Run, now)
		r.Spent = dedupe.Spent{Attempts: u.Attempts.Used, SideEffects: u.SideEffects.Used}
		return dedupe.Change{Record: r, Run: run}
	case gate.Reconcile:
		r.State, _ = r.State.Next(dedupe.StartReconcile)
		r.Reconciled = r.Generation + 1
		r.Lease = now.Add(d.Lease(r.Terms.Timeout))
		run.Charge(r.Run, false)
		r.Attempts = appendAttempt(r.Attempts, schemas.Attempt{N: r.Tries, Generation: r.Generation, Started: now, Reconcile: true})
		return dedupe.Change{Record: r, Run: run}
	case gate.Settle:
		if dec.Status == schemas.Repair {
			run.Repairs++
		}
		finish(r, run, dec, ending{now: now, request: s.request, verdict: &s.verdict, deadline: r.Deadline, next: now.Add(delay)})
		return dedupe.Change{Record: r, Run: run, Result: true}
	default:
		panic(fmt.Sprintf("dispatcher: gate.After decided %v", dec.Action))
	}
}

// arm makes the record wait for its next attempt, with everything that a retry
// needs, and names a new carrier.
func arm(r *dedupe.Record, q *schemas.Request, due time.Time, owes bool) {
	r.State, _ = r.State.Next(dedupe.Retry)
	r.Token++
	r.OnLane = false
	r.Due, r.OwesToken, r.Request, r.Slot = due, owes, q, dedupe.SlotSchedule
}

func describe(dec gate.Decision) string {
	s := dec.Action.String()
	if dec.Action == gate.Settle {
		s = string(dec.Status)
	}
	return s + ": " + dec.Why
}

// clipped is how long a message that is kept with every attempt may be.
const clipped = 512

func clip(s string) string {
	if len(s) > clipped {
		return s[:clipped] + "…"
	}
	return s
}
