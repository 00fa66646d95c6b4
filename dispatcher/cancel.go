package dispatcher

import (
	"context"
	"slices"
	"strings"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// CancelRequest names what to cancel: a run path with everything below it, or one call.
type CancelRequest struct {
	Tenant string `json:"-"`
	Run    string `json:"run,omitempty"`
	Call   string `json:"call,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"-"`
}

// CancelReport is what a cancellation met.
type CancelReport struct {
	Cancelled int `json:"cancelled"` // waiting calls settled now
	Running   int `json:"running"`   // attempts told to stop; what they did is kept
	Unknown   int `json:"unknown"`   // no such run or call; a run is remembered as cancelled
}

// Cancel stops a run or a call. It returns after the commit: no attempt of it
// starts any more.
func (d *Dispatcher) Cancel(ctx context.Context, rs Records, q CancelRequest) (CancelReport, error) {
	if q.Call != "" {
		return d.cancelCall(ctx, q)
	}
	var rep CancelReport
	now := time.Now()
	receipt, err := d.cfg.Ledger.Update(ctx, dedupe.Ref{Tenant: q.Tenant, Root: schemas.Root(q.Run)}, func(v dedupe.View) dedupe.Change {
		run := v.Run
		rep.Unknown = 0
		if run == nil {
			run = budget.New(q.Tenant, schemas.Root(q.Run), now)
		}
		a := q.audit(now)
		a.Before, a.After = "open", "cancelled"
		if _, ok := run.Accounts[q.Run]; !ok {
			rep.Unknown = 1
			a.Before = "unknown"
		}
		if run.Cancelled(q.Run) {
			a.Before = "cancelled"
		}
		run.Cancel(q.Run, q.Reason, now)
		run.Used = now
		return dedupe.Change{Run: run, Audit: []dedupe.Audit{a}}
	})
	if err != nil {
		return rep, err
	}
	d.cfg.Publisher.Audit(receipt.Audit)
	rep.Running = d.running.cancel(func(_ string, c runningCall) bool { return c.tenant == q.Tenant && below(c.run, q.Run) }, ErrCancelled)
	within := func(r *dedupe.Record) bool { return r != nil && r.Tenant == q.Tenant && below(r.Run, q.Run) }
	for _, call := range rs.Waiting(q.Tenant, schemas.Root(q.Run)) {
		done, err := d.cancelWaiting(ctx, dedupe.Ref{Tenant: q.Tenant, Root: schemas.Root(q.Run), Call: call}, "", within)
		if err != nil {
			return rep, err
		}
		if done {
			rep.Cancelled++
		}
	}
	return rep, nil
}

func below(path, ancestor string) bool {
	return path == ancestor || strings.HasPrefix(path, ancestor+"/")
}

func (d *Dispatcher) cancelCall(ctx context.Context, q CancelRequest) (CancelReport, error) {
	var rep CancelReport
	known := false
	done, err := d.cancelWaiting(ctx, dedupe.Ref{Tenant: q.Tenant, Call: q.Call}, q.reason(), func(r *dedupe.Record) bool {
		known = r != nil && r.Tenant == q.Tenant
		return known
	}, q.audit(time.Now()))
	switch {
	case err != nil:
		return rep, err
	case !known:
		rep.Unknown = 1
	case done:
		rep.Cancelled = 1
	default:
		rep.Running = d.running.cancel(func(call string, _ runningCall) bool { return call == q.Call }, ErrCancelled)
	}
	return rep, nil
}

// cancelWaiting settles a call that is between attempts. A running one is only
// marked: its real outcome is kept, and it is not retried whatever it is.
func (d *Dispatcher) cancelWaiting(ctx context.Context, ref dedupe.Ref, mark string, may func(*dedupe.Record) bool, audit ...dedupe.Audit) (bool, error) {
	var a *admission
	now := time.Now()
	receipt, err := d.cfg.Ledger.Update(ctx, ref, func(v dedupe.View) dedupe.Change {
		a = &admission{record: v.Record, run: v.Run}
		r := v.Record
		switch {
		case !may(r) || r == nil:
			return dedupe.Change{}
		case r.State.Terminal():
			return dedupe.Change{Audit: told(audit, false, r.State.String(), "")}
		}
		before := r.State.String()
		if mark != "" {
			r.Cancel = mark
		}
		if r.State.Running() {
			return dedupe.Change{Record: r, Audit: told(audit, true, before, before+", not tried again")}
		}
		a.decision = gate.Before(gate.BeforeFacts{Known: gate.Waiting, Source: gate.Carrier, Due: true, ToolKnown: true, TenantAllowed: true,
			AttemptsLeft: true, Cancelled: true, Ambiguous: r.Ambiguous, Job: r.Lane == schemas.Jobs})
		finish(r, v.Run, a.decision, ending{now: now, request: r.Request, deadline: r.Deadline})
		return dedupe.Change{Record: r, Run: v.Run, Result: true, Audit: told(audit, true, before, r.State.String())}
	})
	if err != nil {
		return false, err
	}
	if a.decision.Action != gate.Settle {
		d.cfg.Publisher.Audit(receipt.Audit)
		return false, nil
	}
	d.observeAfter(a.record, a.decision, nil)
	d.act(ctx, a.record, receipt)
	return true, nil
}

// told is the entries of a decision about a call, if it is one of its own, with how the
// call stood before and after.
func told(audit []dedupe.Audit, allowed bool, before, after string) []dedupe.Audit {
	out := slices.Clone(audit)
	for i := range out {
		out[i].Allowed, out[i].Before, out[i].After = allowed, before, after
		if !allowed {
			out[i].Detail = "it has ended"
		}
	}
	return out
}

func (q CancelRequest) reason() string {
	if q.Reason == "" {
		return "cancelled by " + q.By
	}
	return q.Reason
}

func (q CancelRequest) audit(now time.Time) dedupe.Audit {
	target := "run " + q.Run
	if q.Call != "" {
		target = "call " + q.Call
	}
	return dedupe.Audit{At: now, Tenant: q.Tenant, Action: "cancel", Target: target, By: q.By, Why: q.Reason, Allowed: true}
}
