package deadletter

import "tollgate/schemas"

// NextStep says, in a sentence, what an operator would do about a letter. The
// runbook in docs/OPERATIONS.md has a paragraph for each reason.
func NextStep(reason, code string) string {
	switch code {
	case string(schemas.AuthExpired):
		return "Renew the tool's credentials, then replay."
	case string(schemas.QuotaExhausted):
		return "Raise the provider's quota or wait until it resets, then replay."
	case schemas.CodeUnknownTool:
		return "Add the tool to the catalogue again, then replay; or discard."
	}
	return map[string]string{
		schemas.ReasonMalformed:            "Fix the publisher: the message breaks the contract and can never run. Then discard the letter.",
		schemas.ReasonPoison:               "Find out why the dispatcher dies while this call runs before it is replayed.",
		schemas.ReasonFailed:               "Read the error, mend its cause, then replay; discard what must not run any more.",
		schemas.ReasonUnknownOutcome:       "Ask the provider whether the effect happened for the downstream key, then resolve the letter as happened or did_not_happen. Never replay it blindly.",
		schemas.ReasonExhaustedAttempts:    "See that the dependency is healthy, then replay; a run without attempts left needs a grant.",
		schemas.ReasonExhaustedElapsedTime: "See why it took so long, then replay: a replay gets the call's original window again.",
		schemas.ReasonExhaustedSideEffects: "Decide whether this run may change more, then replay with a grant of side effects.",
		schemas.ReasonToolError:            "Read the tool's answer; edit the letter where that is allowed, or submit a corrected job with a new key and discard the letter.",
		schemas.ReasonRepair:               "Edit the letter where that is allowed, or submit the job with corrected arguments and a new key and discard the letter.",
		schemas.ReasonUnavailable:          "Replay once the dependency is available again.",
		schemas.ReasonRejected:             "Read the refusal, fix the publisher, then discard the letter.",
		schemas.ReasonCancelled:            "Nothing, unless the cancellation was a mistake: then replay into a new run.",
	}[reason]
}
