package deadletter_test

import (
	"testing"
	"time"

	"tollgate/deadletter"
	"tollgate/schemas"
)

func TestInstantReadsTimesAndAges(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                          {},
		"2h":                        now.Add(-2 * time.Hour),
		"3d":                        now.AddDate(0, 0, -3),
		"1d12h":                     now.Add(-36 * time.Hour),
		"2026-03-09T13:00:00+01:00": now.AddDate(0, 0, -1),
	} {
		if got, err := deadletter.Instant(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-2h", "2", "99999999d", "1d-3h"} {
		if got, err := deadletter.Instant(text, now); err == nil {
			t.Errorf("%q was taken as %s", text, got)
		}
	}
}

// A reason nobody can explain would be an operator's riddle.
func TestEveryReasonHasAMeaningAndANextStep(t *testing.T) {
	for _, r := range schemas.Reasons {
		if deadletter.Meaning(r) == "" || deadletter.NextStep(r, "") == "" {
			t.Errorf("%s is not explained", r)
		}
	}
}
