package dispatcher

import (
	"fmt"
	"time"

	"tollgate/dedupe"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// message words an outcome for whoever reads it, a model included. It never
// invites another try where none is allowed. "" keeps what the tool said.
func message(r *dedupe.Record, dec gate.Decision, e ending, x *schemas.Error) string {
	switch dec.Code {
	case schemas.CodeRunBudget:
		return fmt.Sprintf("The budget of run %s is used up (%s). Every further call charged to it is refused, whatever the tool, key or child run. Stop and report this.", x.Scope, x.Reason)
	case schemas.CodeCallAttempts:
		return fmt.Sprintf("All %d attempts this call was allowed have failed; the dispatcher has already retried. Do not call again; report the failure.", r.Terms.Attempts)
	case schemas.CodeCallDeadline:
		return fmt.Sprintf("The call's deadline %s has passed.", e.deadline.UTC().Format(time.RFC3339))
	case schemas.CodeDoesNotFit:
		return doesNotFit(r, e)
	case schemas.CodeInvalidArguments:
		return "The arguments do not match the tool's schema: " + problemText(e.problem) + ". Correct them and call again with a new idempotency key."
	case schemas.CodeMaxRepairs:
		return "The arguments do not match the tool's schema, and this run has used all its corrections: " + problemText(e.problem)
	case schemas.CodeUnsafeToRepeat:
		return "The tool failed and repeating it is not safe, so it was not repeated."
	case schemas.CodePoison:
		return "The dispatcher died each time this call ran; it is not run again."
	case schemas.CodeCancelled:
		return "The run or call was cancelled."
	case schemas.CodeUnknownTool:
		return "No tool of this name is served any more."
	case schemas.CodeBodyLost:
		return "The process died during the attempt and the request is no longer stored anywhere, so it cannot be repeated."
	case schemas.CodeLedgerRecovered:
		return "The ledger was lost and recovered after this call was published; it may have run before, and repeating it is not safe."
	case schemas.CodeBreakerOpen, schemas.CodeRateLimited, schemas.CodeQueueFull, schemas.CodePaused, schemas.CodeQuotaEmpty, schemas.CodeWaitTooLong:
		return unavailable(r, dec)
	}
	if dec.Status == schemas.UnknownOutcome {
		return "The tool may have acted, but its answer was lost, and repeating it is not safe. Find out what happened before anything else is done. (" + x.Message + ")"
	}
	return ""
}

func doesNotFit(r *dedupe.Record, e ending) string {
	left := e.deadline.Sub(e.now).Round(time.Millisecond)
	needs := fmt.Sprintf("may take %s, with %s to spare for its end", r.Terms.Timeout, gate.Margin(r.Terms.Window))
	if wait := e.next.Sub(e.now); !e.next.IsZero() && wait > 0 {
		return fmt.Sprintf("The next attempt would have to wait %s and %s, which does not fit the %s that are left.", wait.Round(time.Millisecond), needs, left)
	}
	return fmt.Sprintf("An attempt %s, which does not fit the %s that are left.", needs, left)
}

func unavailable(r *dedupe.Record, dec gate.Decision) string {
	why := map[string]string{
		schemas.CodeBreakerOpen: "its circuit breaker is open",
		schemas.CodeRateLimited: "its rate limit leaves no room before the deadline",
		schemas.CodeQueueFull:   "all its slots are taken until after the deadline",
		schemas.CodePaused:      "an operator has paused it",
		schemas.CodeQuotaEmpty:  "too many calls are being retried already",
		schemas.CodeWaitTooLong: "it asked for a longer wait than a call is given",
	}[dec.Code]
	return fmt.Sprintf("%s is not available now: %s. Nothing has happened. The same call may be made again later.", r.Tool, why)
}

func refusalMessage(c *call, dec gate.Decision, problem error) string {
	switch dec.Code {
	case schemas.CodeKeyConflict:
		return fmt.Sprintf("Idempotency key %q was used before in this run and tool with other arguments. Nothing was executed. Use a new key for a new operation.", c.request.Key)
	case schemas.CodeUnknownTool:
		return fmt.Sprintf("There is no tool %q.", c.Tool)
	case schemas.CodeDenied:
		return fmt.Sprintf("Tenant %s may not call %s on this lane.", c.Tenant, c.Tool)
	case schemas.CodeTooLarge:
		return fmt.Sprintf("The arguments are %d bytes, more than the dispatcher takes.", len(c.Body))
	case schemas.CodeTooManyAccounts:
		return "The run already has as many child runs as its policy allows."
	case schemas.CodeQueueFull:
		return "Too many calls are waiting already. Nothing was accepted; the same call may be made again later."
	case schemas.CodeLedgerDown:
		return "The dispatcher cannot take calls now. Nothing was accepted or executed; the same call may be made again later."
	}
	return "The message is malformed: " + problemText(problem)
}

func problemText(err error) string {
	if err == nil {
		return "no details"
	}
	return err.Error()
}
