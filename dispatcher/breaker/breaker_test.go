package breaker_test

import (
	"testing"
	"time"

	"tollgate/dispatcher/breaker"
)

// What opens a breaker is what its limits name, and nothing else: a ratio of 0 is no
// limit, and does not mean that any failure is too many.
func TestOnlyNamedLimitsOpen(t *testing.T) {
	const s, f, n = breaker.Success, breaker.Failure, breaker.Neutral
	for _, tc := range []struct {
		name    string
		limits  breaker.Limits
		results []breaker.Result
		want    string
	}{
		{"in a row", breaker.Limits{Consecutive: 3, Cooldown: time.Minute}, []breaker.Result{f, f, f}, "open"},
		{"not in a row", breaker.Limits{Consecutive: 3, Cooldown: time.Minute}, []breaker.Result{f, f, s, f, f}, "closed"},
		{"neutral ones do not break a row", breaker.Limits{Consecutive: 3, Cooldown: time.Minute}, []breaker.Result{f, f, n, f}, "open"},
		{"share", breaker.Limits{Ratio: 0.5, Least: 4, Cooldown: time.Minute}, []breaker.Result{s, s, f, f}, "open"},
		{"share of too few", breaker.Limits{Ratio: 0.5, Least: 5, Cooldown: time.Minute}, []breaker.Result{s, s, f, f}, "closed"},
		{"no share", breaker.Limits{Consecutive: 3, Least: 4, Cooldown: time.Minute}, []breaker.Result{s, s, s, s, f, f}, "closed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := breaker.New("it", tc.limits)
			for i, r := range tc.results {
				done, _ := b.Allow(time.Now())
				if done == nil {
					t.Fatalf("open before result %d", i+1)
				}
				done(r)
			}
			if got := b.State(); got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
		})
	}
}
