package dispatcher

import (
	"context"
	"errors"
	"testing"
	"time"
)

// I10: an attempt that was claimed before a cancellation was committed, and starts
// only after it, is ended like one that was running; a later one is not.
func TestACancellationReachesAnAttemptBetweenItsClaimAndItsStart(t *testing.T) {
	r := running{calls: map[string]runningCall{}, held: map[string]bool{}}
	claimed := time.Now()
	time.Sleep(time.Millisecond)
	if n := r.cancel(func(_ string, c runningCall) bool { return c.run == "r" }, ErrCancelled); n != 0 {
		t.Fatalf("%d were running", n)
	}
	time.Sleep(time.Millisecond)
	start := func(call, run string, claimed time.Time) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		r.add(call, runningCall{run: run, cancel: cancel}, claimed)
		return context.Cause(ctx)
	}
	if err := start("a", "r", claimed); !errors.Is(err, ErrCancelled) {
		t.Errorf("claimed before: %v", err)
	}
	if err := start("b", "other", claimed); err != nil {
		t.Errorf("another run: %v", err)
	}
	if err := start("c", "r", time.Now()); err != nil {
		t.Errorf("claimed after, by a replay: %v", err)
	}
}
