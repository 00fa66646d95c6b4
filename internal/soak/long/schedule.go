package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// The kinds of faults, as they are drawn.
const (
	killDispatcher = "tollgate killed"
	stopDispatcher = "tollgate restarted in order"
	killServer     = "nats-server killed"
	fullLedger     = "ledger's disk full"
	fullServer     = "server's disk full"
	cureServer     = "nats-server restarted by its supervisor"
)

// trouble is one fault: when, what, and of a full disk how long.
type trouble struct {
	at, length time.Duration
	kind       string
}

// longLife is when the dispatcher is left alive, so that what leaks slowly in one life
// shows.
func (o options) longLife() (from, to time.Duration) { return o.length * 4 / 10, o.length * 8 / 10 }

// schedule is the faults of a run, in order.
func schedule(rng *rand.Rand, o options) (all []trouble) {
	within := func(from, to time.Duration) time.Duration {
		return time.Duration(o.pace * float64(from+time.Duration(rng.Int64N(int64(to-from)))))
	}
	from, to := o.longLife()
	for at := within(20*time.Second, 60*time.Second); at < o.length; at += within(20*time.Second, 60*time.Second) {
		kind := killDispatcher
		if rng.IntN(4) == 0 {
			kind = stopDispatcher
		}
		if at < from || at > to {
			all = append(all, trouble{at: at, kind: kind})
		}
	}
	for at := within(time.Minute, 3*time.Minute); at < o.length; at += within(time.Minute, 3*time.Minute) {
		all = append(all, trouble{at: at, kind: killServer})
	}
	// The first comes while the ledger still grows: later it may live on the space
	// that expired records have left, and not notice.
	spell := func() time.Duration { return 5*time.Second + time.Duration(rng.Int64N(int64(5*time.Second))) }
	for at := within(40*time.Second, 70*time.Second); at < o.length; at += within(3*time.Minute, 5*time.Minute) {
		all = append(all, trouble{at: at, length: spell(), kind: fullLedger})
	}
	for at := within(100*time.Second, 160*time.Second); at < o.length; at += within(3*time.Minute, 5*time.Minute) {
		all = append(all, trouble{at: at, length: spell(), kind: fullServer})
	}
	slices.SortFunc(all, func(a, b trouble) int { return cmp.Compare(a.at, b.at) })
	return all
}
