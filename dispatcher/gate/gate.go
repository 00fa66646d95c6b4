// Package gate decides. Two pure tables, first match wins, on every path there
// is: first delivery, retry, redelivery, replay, request/reply endpoint,
// reconcile, recovery. [Before] stands in front of a dispatch, [After] behind one.
//
// Facts are gathered elsewhere and effects are done elsewhere. Nothing here reads
// a clock, draws a random number, logs or stores; no other package may hold a
// policy `if` about a call's fate.
package gate

import (
	"tollgate/budget"
	"tollgate/schemas"
)

// Action is what is to be done. Zero is invalid.
type Action uint8

// The actions, a closed set.
const (
	Nak       Action = iota + 1 // hand the delivery back; it comes again later
	Refuse                      // answer the message, not a call: no record, no key used up
	Answer                      // give the stored outcome again; free
	Attach                      // acknowledge: the pending outcome will be published
	Defer                       // not now; nothing is charged
	Settle                      // terminal, with Status
	Run                         // claim, charge and execute
	Retry                       // arm the next attempt
	Reconcile                   // charge and ask the tool's reconcile hook
)

var actionNames = [...]string{"", "nak", "refuse", "answer", "attach", "defer", "settle", "run", "retry", "reconcile"}

func (a Action) String() string { return actionNames[a] }

// Decision is the gate's word. Control flow looks at Action; logs, metrics and
// letters carry the rest.
type Decision struct {
	Action Action
	Status schemas.Status // of Settle and Refuse
	Code   string         // the outcome's code; "" keeps the failure's own
	Why    string         // stable lower-case reason for logs and timelines
	Budget budget.Refusal // of exhausted
	Owes   bool           // Retry: the job still owes its dependency a token
	Frees  bool           // Settle: the key is released
}

// Fit says whether an attempt fits the time that is left. Zero is that it does.
type Fit uint8

// The fits.
const (
	Fits        Fit = iota
	CallExpired     // the call's own deadline has passed
	RunExpired      // the deadline of an account on the run path has passed
	DoesNotFit      // time is left, but not for this attempt
)

func (f Fit) String() string {
	return [...]string{"fits", "call_expired", "run_expired", "does_not_fit"}[f]
}

func nak(why string) Decision    { return Decision{Action: Nak, Why: why} }
func attach(why string) Decision { return Decision{Action: Attach, Why: why} }

func refuse(code, why string) Decision {
	return Decision{Action: Refuse, Status: schemas.Rejected, Code: code, Why: why}
}

func settle(s schemas.Status, code, why string) Decision {
	return Decision{Action: Settle, Status: s, Code: code, Why: why}
}

// unless settles with s, but as an unknown outcome when the call is ambiguous: an
// effect that may have happened is never filed under cancelled or unavailable.
func unless(ambiguous bool, s schemas.Status, code, why string) Decision {
	if ambiguous {
		return settle(schemas.UnknownOutcome, code, why)
	}
	d := settle(s, code, why)
	d.Frees = s == schemas.Unavailable
	return d
}

// exhausted settles a call whose attempts, budget or time are used up.
func exhausted(attemptsLeft bool, no budget.Refusal, fit Fit) Decision {
	d := settle(schemas.Exhausted, "", "")
	switch {
	case !attemptsLeft:
		d.Code, d.Why = schemas.CodeCallAttempts, "call_attempts"
	case no.Dimension != 0:
		d.Code, d.Why, d.Budget = schemas.CodeRunBudget, "run_"+no.Dimension.String(), no
	case fit == CallExpired:
		d.Code, d.Why = schemas.CodeCallDeadline, "call_deadline"
	case fit == RunExpired:
		d.Code, d.Why = schemas.CodeRunBudget, "run_elapsed_time"
		d.Budget = budget.Refusal{Dimension: budget.ElapsedTime}
	default:
		d.Code, d.Why = schemas.CodeDoesNotFit, "does_not_fit"
	}
	return d
}
