package cli

import (
	"math"
	"testing"
	"time"
)

// What is typed is a fault, or a value that makes sense: no instant in the future of
// an age, no rate or grant of nothing.
func FuzzTyped(f *testing.F) {
	for _, s := range []string{"2h", "3d", "3d2h", "99999999999999999999d", "9223372036854775807d", "2026-11-30T12:00:00Z", "0001-01-01T00:00:00+23:59", "-2h", "5/s", "300/m", "NaN", "1e6/s", "Inf/m",
		"attempts=2,side_effects=1,elapsed=10m", "attempts=", "elapsed=-1s", "attempts=2,attempts=-2", ",", "1.5d"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := &shell{now: func() time.Time { return now }}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := s.instant("--since", text); err == nil && text != "" {
			if _, stated := time.Parse(time.RFC3339, text); stated != nil && (at.After(now) || at.Year() < 0) {
				t.Errorf("the age %q is %v", text, at)
			}
		}
		if n, err := parseRate(text); err == nil && (math.IsNaN(n) || n <= 0 || n > 1e6) {
			t.Errorf("the rate %q is %v", text, n)
		}
		if g, err := parseGrant(text); err == nil && (g.Attempts < 0 || g.SideEffects < 0 || g.Elapsed < 0) {
			t.Errorf("the grant %q is %+v", text, g)
		}
	})
}
