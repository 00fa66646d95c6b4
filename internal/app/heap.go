package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// headroom is how far the heap may grow between two collections. By Go's default
	// it is as much as is in use: little for a dispatcher with nothing to remember,
	// which then spends a seventh of its time collecting, and a lot for one with a
	// hundred thousand waiting calls.
	headroom = 32 << 20
	// A heap is given at least half of its size, and a tiny one at most four times.
	leastPercent, mostPercent = 50, 400

	paceEvery = 5 * time.Second
)

// paceHeap keeps the headroom the same as the heap in use grows and shrinks. An
// operator who has set GOGC has decided otherwise.
func paceHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	t := time.NewTicker(paceEvery)
	defer t.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for now := 0; ; {
		metrics.Read(live)
		// Setting it stops everything for a moment: not for a change that is none.
		if p := gcPercent(live[0].Value.Uint64()); p < now*9/10 || p > now*11/10 {
			debug.SetGCPercent(p)
			now = p
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// gcPercent is the GOGC that gives a heap of so many live bytes the headroom.
func gcPercent(live uint64) int {
	return int(min(mostPercent, max(leastPercent, headroom*100/max(live, 1))))
}
