//go:build soak

package soak

import (
	"testing"
	"time"
)

// Ten thousand letters at 500 a second: the rate is kept within a tenth.
func TestSoakABulkReplayOfTenThousand(t *testing.T) {
	for i, rate := range bulk(t, 10000, 500, 10*time.Minute) {
		if rate < 450 || rate > 550 {
			t.Errorf("part %d: %.1f a second, want 500 within a tenth", i+1, rate)
		}
	}
}
