package deadletter

import (
	"strings"
	"testing"
	"time"

	"tollgate/schemas"
)

// I12: whatever a call has been through, its letter's headers fit a message.
func TestI12AnOutcomeAlwaysFitsALettersHeaders(t *testing.T) {
	wide := strings.Repeat("<", 512) // six bytes each in JSON
	o := schemas.Outcome{V: 1, Status: schemas.Exhausted, Key: strings.Repeat("<", 255), Run: strings.Repeat("r", 1024), ToolCallID: strings.Repeat("<", 256),
		Error: &schemas.Error{Code: "X", Message: strings.Repeat("<", 40_000)}, Content: []schemas.Content{{Type: "text", Text: strings.Repeat("<", 90_000)}}}
	for n := range 64 {
		o.Attempts = append(o.Attempts, schemas.Attempt{N: n + 1, Started: time.Now(), Message: wide, Code: "X", Decision: wide, Trace: wide})
	}
	text, cut := boundedOutcome(o)
	if len(text) > maxOutcome || !cut || !strings.Contains(text, `"n":64`) {
		t.Errorf("%d bytes, cut %t, at most %d with the last attempt", len(text), cut, maxOutcome)
	}
}
