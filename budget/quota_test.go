package budget_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollgate/budget"
)

// Ten successes at 0.1 buy one retry, not none and not two, although ten times 0.1
// is not 1 in binary.
func TestTenDepositsBuyOneRetry(t *testing.T) {
	l := budget.QuotaLimits{Ratio: 0.1, Burst: 20}
	q := budget.Quota{At: start}
	for range 9 {
		q = q.Deposit(l)
	}
	if _, ok := q.Withdraw(); ok {
		t.Error("nine deposits bought a retry")
	}
	q, ok := q.Deposit(l).Withdraw()
	if !ok {
		t.Error("ten deposits did not buy a retry")
	}
	if _, ok := q.Withdraw(); ok || q.Tokens < 0 {
		t.Errorf("a second retry with %v tokens", q.Tokens)
	}
}

func TestQuotaStartsFullAndRefills(t *testing.T) {
	l := budget.QuotaLimits{Ratio: 0.1, Burst: 3, RefillPerSec: 0.5}
	q := budget.NewQuota(l, start)
	for n := range 4 {
		var ok bool
		if q, ok = q.Withdraw(); ok != (n < 3) {
			t.Errorf("withdrawal %d: %t", n+1, ok)
		}
	}
	q = q.Refill(l, start.Add(-time.Hour)) // a clock that went back takes nothing
	if q.Tokens != 0 {
		t.Errorf("%v tokens after a step back", q.Tokens)
	}
	if q = q.Refill(l, start.Add(2*time.Second)); q.Tokens != 1 {
		t.Errorf("%v tokens after 2 s, want 1", q.Tokens)
	}
	if q = q.Refill(l, start.Add(time.Hour)); q.Tokens != 3 {
		t.Errorf("%v tokens after an hour, want the burst", q.Tokens)
	}
}

// Retries never exceed the burst and the share of the successes.
func TestQuotaBoundsRetries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := budget.QuotaLimits{Ratio: rapid.Float64Range(0, 1).Draw(t, "ratio"), Burst: rapid.Float64Range(1, 20).Draw(t, "burst")}
		q, bought, successes := budget.NewQuota(l, start), 0, 0
		for _, success := range rapid.SliceOf(rapid.Bool()).Draw(t, "attempts") {
			if success {
				successes++
				q = q.Deposit(l)
			} else if next, ok := q.Withdraw(); ok {
				bought++
				q = next
			}
			if q.Tokens < 0 || q.Tokens > l.Burst {
				t.Fatalf("%v tokens of %v", q.Tokens, l.Burst)
			}
		}
		if most := l.Burst + l.Ratio*float64(successes) + 1e-6; float64(bought) > most {
			t.Fatalf("%d retries, at most %v", bought, most)
		}
	})
}
