package deadletter

import (
	"strings"
	"testing"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Of a call that died several times, only the letter whose replay is under way is replaying.
func TestOnlyTheLastLetterOfACallIsReplaying(t *testing.T) {
	now := dedupe.Standing{State: dedupe.Waiting, Generation: 5}
	for generation := range 5 {
		want := schemas.LetterResolved
		if generation == 4 {
			want = schemas.LetterReplaying
		}
		if got, _ := stateOf(schemas.ReasonExhaustedAttempts, generation, now); got != want {
			t.Errorf("letter %d is %s, want %s", generation, got, want)
		}
	}
}

// What is no JSON may hold a hidden value anywhere, also behind a bracket too many.
func TestNothingOfBrokenArgumentsIsShown(t *testing.T) {
	for _, doc := range []string{`{"to":"x"}} {"pin":"4711"}`, `{"to":"x"}] {"pin":"4711"}`, `{"to":"x"} {"pin":"4711"}`, `{"to":"x"},"pin":"4711"`, `{"pin":"4711"`} {
		if got, _ := Redact([]byte(doc), []string{"/pin"}); strings.Contains(string(got), "4711") {
			t.Errorf("%s is shown as %s", doc, got)
		}
	}
}
