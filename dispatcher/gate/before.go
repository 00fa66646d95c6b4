package gate

import (
	"tollgate/budget"
	"tollgate/schemas"
)

// Known is what the ledger holds of a call. Zero is nothing.
type Known uint8

// What may be known.
const (
	Unknown  Known = iota
	InFlight       // or reconciling
	Waiting
	Terminal
	Released // terminal, and its key is free again
)

func (k Known) String() string {
	return [...]string{"unknown", "in_flight", "waiting", "terminal", "released"}[k]
}

// Source is what a delivery is to the record it meets. Zero is a submission.
type Source uint8

// The sources.
const (
	Submission Source = iota // somebody asks (again)
	Carrier                  // the one current message that may claim
	Stale                    // a carrier of before: an ack that was lost, a schedule fired twice
)

func (s Source) String() string { return [...]string{"submission", "carrier", "stale"}[s] }

// Hold is a local reason not to dispatch now. Zero is none.
type Hold uint8

// The holds.
const (
	NoHold Hold = iota
	Concurrency
	RateLimit
	BreakerOpen
	OwedToken
	Paused // by an operator
)

func (h Hold) String() string {
	return [...]string{"none", "concurrency", "rate", "breaker", "owed_token", "paused"}[h]
}

var holdCodes = [...]string{"", schemas.CodeQueueFull, schemas.CodeRateLimited, schemas.CodeBreakerOpen, schemas.CodeQuotaEmpty, schemas.CodePaused}

// BeforeFacts is everything [Before] looks at. The zero value runs, except that
// nothing allows it: ToolKnown, TenantAllowed and AttemptsLeft must be shown.
type BeforeFacts struct {
	LedgerDown      bool
	Malformed       bool
	TooLarge        bool
	Known           Known
	Conflict        bool // known key, other fingerprint
	Unpublished     bool // the record's schedule, letter or result is not out yet
	Source          Source
	Due             bool // a waiting call's due time has come
	Forgotten       bool // nothing known, but the ledger was recovered after the call was published, and the tool is unsafe
	ToolKnown       bool
	ToolGone        bool // not served, past the grace
	TenantAllowed   bool
	Cancelled       bool // the run path or the call
	Ambiguous       bool
	Unsafe          bool // repeating now is unsafe
	AttemptsLeft    bool // of the call's own limit
	TooManyAccounts bool
	Budget          budget.Refusal
	Fit             Fit
	FirstAttempt    bool
	BadArguments    bool // they violate the tool's schema
	RepairsLeft     bool
	Hold            Hold
	HoldFits        bool // waiting for the hold to end still leaves time for the attempt
	Job             bool
}

// Before decides on a delivery or submission, from the top, first match wins:
//
//	ledger cannot commit                         nak
//	malformed, too large                         refuse
//	known key, other fingerprint                 refuse KEY_CONFLICT
//	terminal (or released, and not submitted)    unpublished: nak; else answer
//	released, submitted again                    unpublished: nak; else go on, next generation
//	in flight                                    carrier: nak until its lease; else attach
//	waiting, not its carrier                     unpublished: nak; else attach
//	waiting, carrier, before its time            nak until due
//	nothing known, unknown tool or tenant        refuse
//	waiting, its tool gone                       failed UNKNOWN_TOOL
//	older than a recovered ledger, unsafe        unknown_outcome
//	cancelled                                    cancelled
//	run has too many accounts                    refuse; waiting: failed
//	ambiguous and now unsafe                     unknown_outcome
//	attempts, budget or time used up             exhausted
//	no attempt yet, bad arguments                repair
//	breaker, rate, concurrency, owed token       defer; a call it cannot fit: unavailable
//	otherwise                                    run
func Before(f BeforeFacts) Decision {
	known := f.Known != Unknown
	again := f.Known == Released && f.Source == Submission
	switch {
	case f.LedgerDown:
		return nak("ledger_down")
	case f.TooLarge:
		return refuse(schemas.CodeTooLarge, "too_large")
	case f.Malformed:
		return refuse(schemas.CodeMalformed, "malformed")
	case known && f.Conflict:
		return refuse(schemas.CodeKeyConflict, "key_conflict")
	case (f.Known == Terminal || f.Known == Released) && f.Unpublished:
		return nak("unpublished")
	case f.Known == Terminal, f.Known == Released && !again:
		return Decision{Action: Answer, Why: "repeated"}
	case f.Known == InFlight && f.Source == Carrier:
		return nak("in_flight")
	case f.Known == InFlight:
		return attach("in_flight")
	case f.Known == Waiting && f.Source != Carrier && f.Unpublished:
		return nak("unpublished")
	case f.Known == Waiting && f.Source != Carrier:
		return attach("waiting")
	case f.Known == Waiting && !f.Due:
		return nak("not_due")
	case f.Known != Waiting && !f.ToolKnown:
		return refuse(schemas.CodeUnknownTool, "unknown_tool")
	case f.Known != Waiting && !f.TenantAllowed:
		return refuse(schemas.CodeDenied, "denied")
	case f.Known == Waiting && f.ToolGone:
		return unless(f.Ambiguous, schemas.Failed, schemas.CodeUnknownTool, "tool_gone")
	case !f.ToolKnown:
		return nak("tool_not_served")
	case f.Forgotten:
		return settle(schemas.UnknownOutcome, schemas.CodeLedgerRecovered, "ledger_recovered")
	case f.Cancelled:
		return unless(f.Ambiguous, schemas.Cancelled, schemas.CodeCancelled, "cancelled")
	case f.TooManyAccounts && f.Known == Waiting: // a refusal would leave the record waiting for ever
		return unless(f.Ambiguous, schemas.Failed, schemas.CodeTooManyAccounts, "too_many_accounts")
	case f.TooManyAccounts:
		return refuse(schemas.CodeTooManyAccounts, "too_many_accounts")
	case f.Ambiguous && f.Unsafe:
		return settle(schemas.UnknownOutcome, schemas.CodeUnsafeToRepeat, "key_too_old")
	case !f.AttemptsLeft, f.Budget.Dimension != 0, f.Fit != Fits:
		return exhausted(f.AttemptsLeft, f.Budget, f.Fit)
	case f.FirstAttempt && f.BadArguments && f.RepairsLeft:
		return unless(f.Ambiguous, schemas.Repair, schemas.CodeInvalidArguments, "invalid_arguments")
	case f.FirstAttempt && f.BadArguments:
		return settle(schemas.Failed, schemas.CodeMaxRepairs, "max_repairs")
	case f.Hold != NoHold && !f.Job && !f.HoldFits:
		return unless(f.Ambiguous, schemas.Unavailable, holdCodes[f.Hold], f.Hold.String())
	case f.Hold != NoHold:
		return Decision{Action: Defer, Code: holdCodes[f.Hold], Why: f.Hold.String()}
	default:
		return Decision{Action: Run, Why: "run"}
	}
}
