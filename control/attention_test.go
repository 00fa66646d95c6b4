package control

import (
	"strings"
	"testing"
	"time"

	"tollgate/deadletter"
	"tollgate/schemas"
)

// Each thing that an alert would tell is told in a sentence, the worst first; and what
// is as it should be is not.
func TestAttentionIsForWhatAnAlertWouldTell(t *testing.T) {
	owed := time.Now().Add(-stuckFrom - time.Minute)
	s := &Server{cfg: Config{History: func(time.Time, time.Duration, time.Duration) History { return History{OwedSince: owed} }}}
	bad := Status{
		Missing: []string{"nats: the connection is closed"}, Breakers: []BreakerState{{Dependency: "bank", State: "open", Tools: []string{"pay", "refund"}}},
		Streams:      []StreamStatus{{Name: "FULL", Bytes: 81, MaxBytes: 100}, {Name: "HALF", Bytes: 50, MaxBytes: 100}, {Name: "ENDLESS", Bytes: 1 << 40, MaxBytes: -1}},
		OldestLetter: time.Now().Add(-30 * time.Hour), Paused: []string{"mail"}, ClockOffsetMS: -1500,
	}
	letters := deadletter.Tally{By: map[deadletter.Cause]int{{Tool: "a", Reason: schemas.ReasonUnknownOutcome}: 2, {Tool: "b", Reason: schemas.ReasonUnknownOutcome}: 1, {Tool: "b", Reason: schemas.ReasonFailed}: 9}}
	want := []struct{ kind, name, what string }{
		{UnknownOutcomes, "", "3 calls have unknown outcomes"}, {NotReady, "", "the connection is closed"}, {BreakerOpen, "bank", "(pay, refund)"}, {StreamFull, "FULL", "81 % full"},
		{OldLetter, "", "for 30 hours"}, {NotStored, "", "for 6m0s"}, {ToolPaused, "mail", "paused"}, {ClockOff, "", "1.5s"},
	}
	got := s.attention(&bad, letters)
	if len(got) != len(want) {
		t.Fatalf("%d things need attention, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if a := got[i]; a.Kind != w.kind || a.Name != w.name || !strings.Contains(a.What, w.what) || !strings.HasPrefix(a.Try, "tollgate ") {
			t.Errorf("%d is %+v, want %+v", i, a, w)
		}
	}
	owed = time.Now().Add(-time.Second)
	good := Status{Ready: true, OldestLetter: time.Now().Add(-time.Hour), ClockOffsetMS: 20, Streams: bad.Streams[1:]}
	if got := s.attention(&good, deadletter.Tally{}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
