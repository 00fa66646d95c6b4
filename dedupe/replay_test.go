package dedupe_test

import (
	"testing"

	"tollgate/dedupe"
)

// What is over stays over, only the rule stops, and only operators resume.
func TestTheStatesOfABulkReplay(t *testing.T) {
	states := []dedupe.ReplayState{dedupe.ReplayRunning, dedupe.ReplayPaused, dedupe.ReplayStopped, dedupe.ReplayCancelled, dedupe.ReplayDone}
	want := map[dedupe.ReplayEvent][]dedupe.ReplayState{ // in the order of states; "" is refused
		dedupe.ReplayPause:  {dedupe.ReplayPaused, "", "", "", ""},
		dedupe.ReplayResume: {"", dedupe.ReplayRunning, dedupe.ReplayRunning, "", ""},
		dedupe.ReplayCancel: {dedupe.ReplayCancelled, dedupe.ReplayCancelled, dedupe.ReplayCancelled, "", ""},
		dedupe.ReplayStop:   {dedupe.ReplayStopped, "", "", "", ""},
		dedupe.ReplayFinish: {dedupe.ReplayDone, "", "", "", ""},
	}
	for event, row := range want {
		for i, s := range states {
			if next, ok := s.Next(event); next != row[i] || ok != (row[i] != "") {
				t.Errorf("%s of %s: %s, %v", event, s, next, ok)
			}
		}
	}
}

func TestNamesOfBulkReplays(t *testing.T) {
	for name, want := range map[string]bool{"r-1": true, "CRM_is-back": true, "": false, "-x": false, "a.b": false, "a b": false, "ä": false,
		"a123456789a123456789a123456789a123456789a123456789a123456789a123x": false} {
		if dedupe.ValidReplayName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
