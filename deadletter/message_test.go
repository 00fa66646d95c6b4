package deadletter

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

// Letters are grouped by what went wrong at the tool: two causes of giving up are two
// groups, and one cause is one, whatever the run was called.
func TestGivingUpIsGroupedByTheLastFailure(t *testing.T) {
	about := func(code, scope, failure string) schemas.Letter {
		e := &schemas.Error{Code: code, Class: "permanent", Message: "All 4 attempts have failed; the budget of run " + scope + " is used up", Scope: scope}
		if failure != "" {
			e.LastFailure = &schemas.Error{Code: "HTTP_503", Class: "transient", Message: failure}
		}
		h := schemas.Header{}
		describe(h, schemas.ReasonExhaustedAttempts, "crm.upsert", &schemas.Outcome{V: 1, Status: schemas.Exhausted, Error: e}, schemas.Origin{})
		subjects, _ := schemas.NewSubjects("")
		return readHeader(subjects, &jetstream.RawStreamMsg{Subject: "elsewhere", Header: nats.Header(h)})
	}
	down, downAgain := about(schemas.CodeCallAttempts, "", "upstream 17 is down"), about(schemas.CodeCallAttempts, "", "upstream 18 is down")
	full := about(schemas.CodeCallAttempts, "", "disk full")
	if down.Fingerprint != downAgain.Fingerprint || down.Fingerprint == full.Fingerprint {
		t.Errorf("%s %s %s", down.Fingerprint, downAgain.Fingerprint, full.Fingerprint)
	}
	if down.Message != "HTTP_503: upstream 17 is down" || down.Class != "transient" || down.Code != schemas.CodeCallAttempts {
		t.Errorf("%+v", down)
	}
	if a, b := about(schemas.CodeRunBudget, "run-a", ""), about(schemas.CodeRunBudget, "run-b/child", ""); a.Fingerprint != b.Fingerprint || !strings.Contains(a.Message, "run-a") {
		t.Errorf("%s %s %q", a.Fingerprint, b.Fingerprint, a.Message)
	}
}

// How long something took does not tell causes apart, in whatever unit it is written.
// What is no time keeps the fingerprint that stored letters have.
func TestATimeInAnErrorIsOnePlaceholder(t *testing.T) {
	of := func(message string) string { return Fingerprint("t", "c", message) }
	want := of("done with 2s to spare")
	for _, time := range []string{"98.66517ms", "1m30s", "1h0m0.5s", "12ns", "7us", "7µs", "7μs", "3h", "5m"} {
		if got := of("done with " + time + " to spare"); got != want {
			t.Errorf("%s: %s, want %s", time, got, want)
		}
	}
	for message, want := range map[string]string{
		"upstream 17 is down after 3.5 s":              "g-21f32fa704",
		"host a2s of 10hosts, v1.2m3 and 5min, 7 ms_x": "g-bb1cd188e6",
	} {
		if got := of(message); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
}
