package gate

import (
	"tollgate/budget"
	"tollgate/schemas"
)

// NextAction is what an orchestrator should do with an outcome of this status.
func NextAction(s schemas.Status, ambiguous bool) schemas.Action {
	switch s {
	case schemas.Repair:
		return schemas.RepairArgs
	case schemas.Failed:
		return schemas.Escalate
	case schemas.UnknownOutcome:
		return schemas.Reconcile
	case schemas.Exhausted:
		if ambiguous {
			return schemas.Reconcile
		}
	}
	return schemas.Return
}

// LetterReason returns the dead-letter reason of a settled call, or "" when it
// leaves no letter. A generation above 0 follows the jobs column, so that every
// replay that does not succeed is a letter again.
func LetterReason(s schemas.Status, code string, no budget.Dimension, job bool, generation int) string {
	wide := job || generation > 0
	switch {
	case s == schemas.Failed && code == schemas.CodePoison:
		return schemas.ReasonPoison
	case s == schemas.Failed:
		return schemas.ReasonFailed
	case s == schemas.UnknownOutcome:
		return schemas.ReasonUnknownOutcome
	case s == schemas.Exhausted:
		return exhaustedReason(code, no)
	case s == schemas.ToolError && wide:
		return schemas.ReasonToolError
	case s == schemas.Repair && wide:
		return schemas.ReasonRepair
	case s == schemas.Unavailable && wide:
		return schemas.ReasonUnavailable
	case s == schemas.Cancelled && generation > 0:
		return schemas.ReasonCancelled
	default:
		return ""
	}
}

func exhaustedReason(code string, no budget.Dimension) string {
	switch {
	case code == schemas.CodeCallAttempts, no == budget.Attempts:
		return schemas.ReasonExhaustedAttempts
	case no == budget.SideEffects:
		return schemas.ReasonExhaustedSideEffects
	default:
		return schemas.ReasonExhaustedElapsedTime
	}
}

// RefusalReason returns the dead-letter reason of a refused message, or "".
func RefusalReason(code string, job bool) string {
	switch {
	case code == schemas.CodeMalformed || code == schemas.CodeTooLarge:
		return schemas.ReasonMalformed
	case job:
		return schemas.ReasonRejected
	default:
		return ""
	}
}
