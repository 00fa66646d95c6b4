package budget

import "time"

// QuotaLimits set a dependency's retry quota. Zero values are refused by the
// configuration: there is no built-in limit.
type QuotaLimits struct {
	Ratio        float64 `json:"ratio"`                  // tokens a success deposits
	Burst        float64 `json:"burst"`                  // most tokens held; it starts full
	RefillPerSec float64 `json:"refill_per_s,omitempty"` // tokens a second that need no success; 0 is none
}

// Quota is a dependency's token bucket for retries, shared by all runs.
type Quota struct {
	Tokens float64
	At     time.Time // when Tokens was true
}

// NewQuota returns a full bucket.
func NewQuota(l QuotaLimits, now time.Time) Quota { return Quota{l.Burst, now} }

// Refill returns the bucket as it stands at now.
func (q Quota) Refill(l QuotaLimits, now time.Time) Quota {
	if gone := now.Sub(q.At).Seconds(); gone > 0 {
		q.Tokens = min(l.Burst, q.Tokens+gone*l.RefillPerSec)
		q.At = now
	}
	return q
}

// Deposit records a success.
func (q Quota) Deposit(l QuotaLimits) Quota {
	q.Tokens = min(l.Burst, q.Tokens+l.Ratio)
	return q
}

// Withdraw takes the token one retry costs. It reports whether there was one.
func (q Quota) Withdraw() (Quota, bool) {
	// Ten deposits of 0.1 must buy one retry although they do not sum to 1 exactly.
	const tolerance = 1e-9
	if q.Tokens+tolerance < 1 {
		return q, false
	}
	q.Tokens = max(0, q.Tokens-1)
	return q, true
}
