package client

import (
	"errors"
	"fmt"

	"tollgate/schemas"
)

// What can become of a call, for [errors.Is].
var (
	// ErrRunBudgetExhausted: the run has spent its attempts, its side effects or its
	// time. No other key, tool or child agent changes that.
	ErrRunBudgetExhausted = errors.New("the run's budget is exhausted")
	ErrCallExhausted      = errors.New("the call has used its attempts")
	// ErrDeadline: the deadline has passed, or what is left of it is too short for this tool.
	ErrDeadline = errors.New("the call's deadline leaves no time for an attempt")
	// ErrUnknownOutcome: a write may have happened and must not be repeated blindly.
	ErrUnknownOutcome = errors.New("it is not known whether the operation happened")
	// ErrUnavailable: nothing was done; the same call may be made again later.
	ErrUnavailable = errors.New("the tool is not available")
	ErrKeyConflict = errors.New("the idempotency key belongs to other arguments")
	ErrMalformed   = errors.New("the call is malformed")
	ErrTooLarge    = errors.New("the call is too large")
	ErrDenied      = errors.New("the tenant may not call this tool")
	ErrUnknownTool = errors.New("no such tool")
	// ErrToolError: the tool answered with an error that is meant for the model.
	ErrToolError = errors.New("the tool answered with an error")
	// ErrRepair: the arguments do not fit the schema; ask the model for others, under a new key.
	ErrRepair    = errors.New("the arguments have to be repaired")
	ErrFailed    = errors.New("the call failed for good")
	ErrCancelled = errors.New("the call was cancelled")
	// ErrNoDispatcher: nobody took the call, and nothing was accepted.
	ErrNoDispatcher = errors.New("no dispatcher answers on this server; start one with `tollgate dev` or `tollgate serve`, and check the subject prefix and the account")
	// ErrNoAnswer: the call goes on, but its outcome was not seen in time.
	ErrNoAnswer = errors.New("no outcome yet")
)

// OutcomeError is an outcome other than succeeded. It unwraps to the sentinel that
// names its kind.
type OutcomeError struct {
	Outcome *Outcome
	// Unsent is set when this client refused to send the call because an earlier outcome,
	// the one in Outcome, had named the run's budget. See [Client.Forget].
	Unsent bool
}

func (e *OutcomeError) Error() string {
	o := e.Outcome
	s := string(o.Status)
	if o.Error != nil {
		s = fmt.Sprintf("%s %s: %s", o.Status, o.Error.Code, o.Error.Message)
	}
	if e.Unsent {
		return "not sent, because an earlier call of the run ended " + s
	}
	return s
}

func (e *OutcomeError) Unwrap() error {
	switch e.Outcome.Status {
	case schemas.Exhausted:
		return exhaustedKind(e.Outcome.Code())
	case schemas.Rejected:
		return rejectedKind(e.Outcome.Code())
	case schemas.UnknownOutcome:
		return ErrUnknownOutcome
	case schemas.Unavailable:
		return ErrUnavailable
	case schemas.ToolError:
		return ErrToolError
	case schemas.Repair:
		return ErrRepair
	case schemas.Cancelled:
		return ErrCancelled
	default:
		return ErrFailed
	}
}

func exhaustedKind(code string) error {
	switch code {
	case schemas.CodeRunBudget:
		return ErrRunBudgetExhausted
	case schemas.CodeCallAttempts:
		return ErrCallExhausted
	default:
		return ErrDeadline
	}
}

func rejectedKind(code string) error {
	switch code {
	case schemas.CodeKeyConflict:
		return ErrKeyConflict
	case schemas.CodeDenied:
		return ErrDenied
	case schemas.CodeUnknownTool:
		return ErrUnknownTool
	case schemas.CodeTooLarge:
		return ErrTooLarge
	case schemas.CodeLedgerDown, schemas.CodeQueueFull:
		return ErrUnavailable
	default:
		return ErrMalformed
	}
}

// NoAnswerError says that the waiting ended before the call did. The call goes on: its
// Submission is what [Client.Result] takes.
type NoAnswerError struct {
	Submission Submission
	Err        error // why the waiting ended
}

func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("%v of call %s: %v; wait on with Result, or make the same call again with the same key", ErrNoAnswer, e.Submission.Call, e.Err)
}

func (e *NoAnswerError) Unwrap() []error { return []error{ErrNoAnswer, e.Err} }
