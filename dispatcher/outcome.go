package dispatcher

import (
	"fmt"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// ending is what a terminal outcome is made of, beside the record and the decision.
type ending struct {
	now      time.Time
	request  *schemas.Request  // kept for the letter; nil: lost
	verdict  *classify.Verdict // of the last attempt; nil: there was none in this look
	problem  error             // what is wrong with the arguments
	deadline time.Time
	next     time.Time // when a retry would have started
}

// finish makes the record terminal: outcome, state, letter and what is owed.
func finish(r *dedupe.Record, run *budget.Run, dec gate.Decision, e ending) {
	r.Due, r.Lease, r.OwesToken, r.OnLane = time.Time{}, time.Time{}, false, false
	r.Settled, r.Released = e.now, dec.Frees
	r.Outcome = outcome(r, run, dec, e)
	job := r.Lane == schemas.Jobs
	r.LetterReason = gate.LetterReason(dec.Status, r.Outcome.Code(), dec.Budget.Dimension, job, r.Generation)
	event := dedupe.Settle
	switch {
	case r.LetterReason != "":
		event = dedupe.Bury
		r.Letter, r.Slot, r.Request, r.BodyLost = schemas.LetterActive, dedupe.SlotLetter, e.request, e.request == nil
	case dec.Status == schemas.Cancelled:
		event = dedupe.Cancel
		fallthrough
	default:
		r.Letter, r.Slot, r.Request = "", 0, nil
	}
	r.State, _ = r.State.Next(event)
	if run != nil {
		run.Used = e.now
	}
}

func outcome(r *dedupe.Record, run *budget.Run, dec gate.Decision, e ending) *schemas.Outcome {
	o := &schemas.Outcome{
		V: schemas.Version, ID: fmt.Sprintf("%s.%d.%d-%d", r.Call, r.Generation, r.Epoch, r.Fence),
		Tenant: r.Tenant, Lane: r.Lane, Run: r.Run, Tool: r.Tool, Call: r.Call, Generation: r.Generation,
		Key: r.Key, Fingerprint: r.Fingerprint, ToolCallID: r.ToolCallID,
		Status: dec.Status, IsError: dec.Status != schemas.Succeeded,
		NextAction: gate.NextAction(dec.Status, r.Ambiguous), Attempts: r.Attempts,
		Timing: schemas.Timing{Published: r.Published, Deadline: r.Deadline, Settled: e.now},
	}
	if run != nil {
		o.Budget = usage(run, r.Run, e.now)
	}
	if v := e.verdict; v != nil {
		o.Content, o.Structured, o.ToolRepeated = v.Content, v.Structured, v.ToolRepeated
	}
	if o.IsError {
		o.Error = failure(r, run, dec, e)
		if len(o.Content) == 0 {
			o.Content = []schemas.Content{{Type: "text", Text: o.Error.Message}}
		}
	}
	return o
}

// failure says why. The dispatcher's own code stands in front; what the tool last
// said is kept below it.
func failure(r *dedupe.Record, run *budget.Run, dec gate.Decision, e ending) *schemas.Error {
	last := lastFailure(r, e)
	x := &schemas.Error{Code: dec.Code, Class: classify.Permanent.String()}
	if dec.Code == "" && last != nil {
		*x, last = *last, nil
		x.Retryable = false // whoever reads an outcome: the retrying has been done
	}
	if x.Code == "" {
		x.Code = schemas.CodeUnclassified
	}
	x.LastFailure = last
	if dec.Budget.Dimension != 0 {
		x.Reason, x.Scope = dec.Budget.Dimension.String(), scope(run, r.Run, dec.Budget)
	}
	if m := message(r, dec, e, x); m != "" {
		x.Message = m
	}
	return x
}

func lastFailure(r *dedupe.Record, e ending) *schemas.Error {
	if len(r.Attempts) == 0 {
		return nil
	}
	a := r.Attempts[len(r.Attempts)-1]
	if a.Generation != r.Generation || a.Class == "" {
		return nil
	}
	x := &schemas.Error{Code: a.Code, Class: a.Class, Phase: a.Phase, Message: a.Message, StopReason: a.StopReason,
		Retryable: a.Class == classify.Transient.String()}
	if a.RetryAfterMS > 0 {
		ms := a.RetryAfterMS
		x.RetryAfterMS = &ms
	}
	return x
}

// scope names the account that refused; for elapsed time the one whose deadline
// comes first.
func scope(run *budget.Run, path string, no budget.Refusal) string {
	if no.Scope != "" || run == nil {
		return no.Scope
	}
	_, s := run.Deadline(path)
	return s
}

// usage is, per dimension, the account on the path with the least left.
func usage(run *budget.Run, path string, now time.Time) schemas.Budget {
	b := schemas.Budget{Attempts: schemas.Usage{Limit: -1}, SideEffects: schemas.Usage{Limit: -1}, ElapsedMS: schemas.Usage{Limit: -1}}
	for _, p := range budget.Paths(path) {
		a, ok := run.Accounts[p]
		if !ok {
			continue
		}
		tighter(&b.Attempts, a.Attempts, a.Limits.Attempts)
		tighter(&b.SideEffects, a.Effects, a.Limits.SideEffects)
	}
	if at, _ := run.Deadline(path); !at.IsZero() {
		b.ElapsedMS = schemas.Usage{Used: max(0, now.Sub(run.Started).Milliseconds()), Limit: at.Sub(run.Started).Milliseconds()}
	}
	return b
}

func tighter(u *schemas.Usage, spent, limit int) {
	if u.Limit < 0 || int64(limit-spent) < u.Limit-u.Used {
		*u = schemas.Usage{Used: int64(spent), Limit: int64(limit)}
	}
}

// refusal is the answer to a message that is no call.
func refusal(c *call, dec gate.Decision, problem error) *schemas.Outcome {
	o := &schemas.Outcome{
		V: schemas.Version, Tenant: c.Tenant, Lane: c.Lane, Run: c.request.Run, Tool: c.Tool, Call: c.id, Key: c.request.Key,
		Fingerprint: c.fingerprint, ToolCallID: c.request.ToolCallID, Status: schemas.Rejected, IsError: true,
		NextAction: schemas.Return, Attempts: []schemas.Attempt{},
		Timing: schemas.Timing{Published: c.published, Deadline: c.deadline, Settled: time.Now()},
	}
	o.ID = "refused." + dedupe.MessageID(c.Origin.Time.String(), c.Origin.Stream+c.Origin.Subject, c.Origin.Sequence)
	o.Error = &schemas.Error{Code: dec.Code, Class: classify.Permanent.String(), Phase: classify.NotSent.String(), Message: refusalMessage(c, dec, problem)}
	o.Content = []schemas.Content{{Type: "text", Text: o.Error.Message}}
	return o
}
