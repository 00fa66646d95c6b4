package gate

import (
	"tollgate/budget"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// AfterFacts is everything [After] looks at once an attempt has ended.
type AfterFacts struct {
	OK           bool
	Class        classify.Class
	Phase        classify.Phase
	For          classify.For
	Stop         bool // the tool gave a stop reason
	Poison       bool // recovered from one crash too many
	BodyLost     bool // the request itself is gone: it cannot be repeated
	Unsafe       bool // repeating at the next attempt's time is unsafe
	CanReconcile bool // a hook exists, was not asked in this generation, is affordable and fits
	Reconciled   bool // this was the hook's answer, and it is not "happened"
	Ambiguous    bool // this attempt counted
	Cancelled    bool
	AttemptsLeft bool
	Budget       budget.Refusal
	Fit          Fit // of delay, then timeout
	RepairsLeft  bool
	WaitTooLong  bool // the stated wait is above max_retry_after
	QuotaEmpty   bool
	Job          bool
}

// After decides what follows an attempt, from the top, first match wins:
//
//	answered, success                     succeeded
//	the hook could not say it happened    unknown_outcome
//	stop reason                           failed
//	unsafe, no answer                     reconcile hook if any, else unknown_outcome
//	not transient                         tool_error, repair or failed
//	the request is gone                   failed BODY_LOST
//	recovered once too often              failed POISON
//	unsafe, answered                      failed UNSAFE_TO_REPEAT
//	cancelled                             cancelled
//	attempts or budget used up            exhausted
//	delay and timeout do not fit          exhausted, at once
//	stated wait too long                  call: unavailable; job: waits it in full
//	dependency's retry quota empty        call: unavailable; job: waits, owing a token
//	otherwise                             retry
//
// An ambiguous call is never filed as cancelled, unavailable, failed for want of a
// repeat, or as an error the model may work around (an earlier attempt may have
// acted, and this one was not answered): it is an unknown outcome, with the cause
// in its code.
func After(f AfterFacts) Decision {
	transient := f.Class == classify.Transient
	switch {
	case f.OK:
		return settle(schemas.Succeeded, "", "succeeded")
	case f.Reconciled:
		return settle(schemas.UnknownOutcome, "", "reconciled")
	case f.Stop:
		return settle(schemas.Failed, "", "stop_reason")
	case f.Unsafe && f.Phase == classify.NoAnswer && f.CanReconcile:
		return Decision{Action: Reconcile, Why: "no_answer"}
	case f.Unsafe && f.Phase == classify.NoAnswer:
		return settle(schemas.UnknownOutcome, "", "no_answer")
	case !transient && f.For == classify.ForModel:
		return unless(f.Ambiguous, schemas.ToolError, "", "tool_error")
	case !transient && f.For == classify.ForRepair && f.RepairsLeft:
		return unless(f.Ambiguous, schemas.Repair, "", "repair")
	case !transient && f.For == classify.ForRepair:
		return settle(schemas.Failed, schemas.CodeMaxRepairs, "max_repairs")
	case !transient:
		return settle(schemas.Failed, "", f.Class.String())
	case f.BodyLost:
		return unless(f.Ambiguous, schemas.Failed, schemas.CodeBodyLost, "body_lost")
	case f.Poison:
		return unless(f.Ambiguous, schemas.Failed, schemas.CodePoison, "poison")
	case f.Unsafe && f.Phase == classify.Answered:
		return unless(f.Ambiguous, schemas.Failed, schemas.CodeUnsafeToRepeat, "unsafe_to_repeat")
	case f.Cancelled:
		return unless(f.Ambiguous, schemas.Cancelled, schemas.CodeCancelled, "cancelled")
	case !f.AttemptsLeft, f.Budget.Dimension != 0, f.Fit != Fits:
		return exhausted(f.AttemptsLeft, f.Budget, f.Fit)
	case f.WaitTooLong && !f.Job:
		return unless(f.Ambiguous, schemas.Unavailable, schemas.CodeWaitTooLong, "wait_too_long")
	case f.QuotaEmpty && !f.Job:
		return unless(f.Ambiguous, schemas.Unavailable, schemas.CodeQuotaEmpty, "quota_empty")
	case f.QuotaEmpty:
		return Decision{Action: Retry, Why: "quota_empty", Owes: true}
	default:
		return Decision{Action: Retry, Why: "transient"}
	}
}

// Ambiguous says whether a write's effect is uncertain once an attempt has ended:
// from an attempt without an answer on, until one succeeds or is answered with
// anything but a transient failure.
func Ambiguous(before, write bool, v classify.Verdict) bool {
	switch {
	case !write || v.OK():
		return false
	case v.Phase == classify.NoAnswer:
		return true
	case v.Phase == classify.Answered && v.Class != classify.Transient:
		return false
	default:
		return before
	}
}
