package deadletter

import "tollgate/schemas"

// Meaning says, in a sentence, what a reason means: what has happened to the call and
// what has not. What to do about it is [NextStep].
func Meaning(reason string) string {
	return map[string]string{
		schemas.ReasonMalformed:            "The message breaks the contract, so it never became a call and nothing was run.",
		schemas.ReasonPoison:               "The dispatcher died several times while this call was running, so it is kept away from it.",
		schemas.ReasonFailed:               "The tool failed in a way that trying again does not mend.",
		schemas.ReasonUnknownOutcome:       "The tool was reached and never answered: its effect may have happened, or not.",
		schemas.ReasonExhaustedAttempts:    "Every attempt failed, until the call or its run had no attempts left.",
		schemas.ReasonExhaustedElapsedTime: "The time for the call or its run was over before an attempt succeeded.",
		schemas.ReasonExhaustedSideEffects: "Its run has no side effects left, so this change was not made.",
		schemas.ReasonToolError:            "The tool worked and answered with an error of its own.",
		schemas.ReasonRepair:               "The tool did not take the arguments; the job has nobody who could correct them.",
		schemas.ReasonUnavailable:          "What the tool stands on was not available, and waiting any longer was no use.",
		schemas.ReasonRejected:             "The message was refused before it became a call; nothing was run.",
		schemas.ReasonCancelled:            "The call or its run was cancelled.",
	}[reason]
}
