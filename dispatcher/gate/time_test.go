package gate_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollgate/dispatcher/gate"
)

func TestCeiling(t *testing.T) {
	const base, most = 200 * time.Millisecond, 2 * time.Second
	for n, want := range map[int]time.Duration{1: base, 2: 2 * base, 3: 4 * base, 4: 8 * base, 5: most, 6: most, 1000: most} {
		if got := gate.Ceiling(base, most, n); got != want {
			t.Errorf("failure %d: %v, want %v", n, got, want)
		}
	}
}

// It starts at the base, doubles, never shrinks, never passes the limit and never
// overflows.
func TestCeilingBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base"))
		limit := time.Duration(rapid.Int64Range(1, 1<<62).Draw(t, "limit"))
		n := rapid.IntRange(1, 200).Draw(t, "n")
		got, next := gate.Ceiling(base, limit, n), gate.Ceiling(base, limit, n+1)
		if n == 1 && got != min(base, limit) {
			t.Fatalf("the first is %v", got)
		}
		if got <= 0 || got > limit || next != limit && next != 2*got {
			t.Fatalf("%v, then %v, limit %v", got, next, limit)
		}
	})
}

// I6: a stated wait is a floor; the jitter on it is at most a fifth.
func TestStatedIsAFloor(t *testing.T) {
	if got := gate.Stated(1200*time.Millisecond, 1); got != 1440*time.Millisecond {
		t.Errorf("the most after 1200 ms is %v, want 1440 ms", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		wait := time.Duration(rapid.Int64Range(0, int64(10*365*24*time.Hour)).Draw(t, "wait"))
		got := gate.Stated(wait, rapid.Float64Range(0, 1).Draw(t, "draw"))
		if got < wait || got > wait+wait/5+time.Microsecond {
			t.Fatalf("%v became %v", wait, got)
		}
	})
}

func TestMargin(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{0: 0, 5 * time.Second: 500 * time.Millisecond, 20 * time.Second: 2 * time.Second, time.Hour: 2 * time.Second} {
		if got := gate.Margin(window); got != want {
			t.Errorf("window %v: %v, want %v", window, got, want)
		}
	}
}

// I5: what fits ends, with its margin, by both deadlines; what starts no later than
// the latest start fits, and one nanosecond later does not.
func TestI5FitAt(t *testing.T) {
	zero := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, name))
		}
		now, timeout, margin := zero.Add(draw("now")), draw("timeout")+1, draw("margin")
		start, call := now.Add(draw("delay")), zero.Add(draw("call"))
		var run time.Time
		if rapid.Bool().Draw(t, "run has a deadline") {
			run = zero.Add(draw("run"))
		}
		end := start.Add(timeout + margin)
		inTime := !end.After(call) && (run.IsZero() || !end.After(run))
		got := gate.FitAt(now, start, timeout, margin, call, run)
		if (got == gate.Fits) != inTime {
			t.Fatalf("%v, but in time is %t", got, inTime)
		}
		if got == gate.CallExpired && now.Before(call) || got == gate.RunExpired && (run.IsZero() || now.Before(run)) {
			t.Fatalf("%v before its deadline", got)
		}
		latest := gate.LatestStart(timeout, margin, call, run)
		if latest.Before(zero) {
			return
		}
		if f := gate.FitAt(latest, latest, timeout, margin, call, run); f != gate.Fits {
			t.Fatalf("the latest start: %v", f)
		}
		if gate.FitAt(latest, latest.Add(1), timeout, margin, call, run) == gate.Fits {
			t.Fatal("after the latest start it still fits")
		}
	})
}
