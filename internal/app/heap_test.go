package app

import "testing"

// A small heap is collected more rarely than by default, a large one grows by less,
// and none by less than half.
func TestHeadroom(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, 400}, {4 * mb, 400}, {16 * mb, 200}, {32 * mb, 100}, {50 * mb, 64}, {64 * mb, 50}, {1000 * mb, 50},
	} {
		if got := gcPercent(tt.live); got != tt.want {
			t.Errorf("%d MB live: GOGC %d, want %d", tt.live/mb, got, tt.want)
		}
	}
}
