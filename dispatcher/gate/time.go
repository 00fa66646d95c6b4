package gate

import "time"

// Margin is what an attempt must leave before the deadline for everything that
// comes after it: 10 % of the call's window, at most two seconds.
func Margin(window time.Duration) time.Duration { return min(2*time.Second, window/10) }

// FitAt says whether an attempt that starts at start and takes timeout ends, with
// the margin, by both deadlines. A zero deadline is none.
func FitAt(now, start time.Time, timeout, margin time.Duration, call, run time.Time) Fit {
	end := start.Add(timeout + margin)
	switch {
	case !run.IsZero() && !now.Before(run):
		return RunExpired
	case !now.Before(call):
		return CallExpired
	case end.After(call), !run.IsZero() && end.After(run):
		return DoesNotFit
	default:
		return Fits
	}
}

// LatestStart is the last instant at which an attempt still fits.
func LatestStart(timeout, margin time.Duration, call, run time.Time) time.Time {
	end := call
	if !run.IsZero() && run.Before(end) {
		end = run
	}
	return end.Add(-timeout - margin)
}

// Ceiling is the most the n-th failure (from 1) may wait on our own backoff:
// min(cap, base * 2^(n-1)). Full jitter draws uniformly below it.
func Ceiling(base, limit time.Duration, n int) time.Duration {
	d := base
	for range n - 1 {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}

// Stated turns a wait the tool stated into ours: at least that, at most a fifth
// more, by a draw in [0, 1].
func Stated(wait time.Duration, draw float64) time.Duration {
	return wait + time.Duration(float64(wait)*draw/5)
}
