package replays

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tollgate/dedupe"
)

// faulty is a ledger with one replay and no letters. It cannot be read while it is broken.
type faulty struct {
	Ledger
	mu     sync.Mutex
	replay dedupe.Replay
	broken error
	reads  int
}

func (f *faulty) Replay(string) (*dedupe.Replay, error) {
	time.Sleep(time.Millisecond) // or virtual time would stand still while somebody spins
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	r := f.replay
	return &r, f.broken
}

func (f *faulty) ReplayItems(string, int, func(dedupe.ReplayItem) bool) error { return nil }

func (f *faulty) UpdateReplay(context.Context, string, dedupe.ReplayMutation) (dedupe.Receipt, error) {
	return dedupe.Receipt{}, errors.New("it cannot be written either")
}

// becomes changes what is read from now on, and returns how often that was done so far.
func (f *faulty) becomes(state dedupe.ReplayState, broken error) (reads int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replay.State, f.broken = state, broken
	return f.reads
}

func newFaulty(rate float64) (*faulty, *worker) {
	f := &faulty{replay: dedupe.Replay{Name: "x", State: dedupe.ReplayPaused, Rate: rate, InFlight: 1}}
	return f, newWorker(Config{Ledger: f, Publish: func([]dedupe.Audit) {}, Log: zerolog.Nop()}, "x")
}

// A ledger that cannot be read is tried once a second, however often an operator pokes,
// and what the operator wanted is done when it can be read again.
func TestALedgerThatCannotBeReadIsTriedOnceASecond(t *testing.T) {
	for name, from := range map[string]time.Duration{"at the start": 0, "later": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, w := newFaulty(1)
				broken := errors.New("the ledger cannot be read")
				if from == 0 {
					f.becomes(dedupe.ReplayPaused, broken)
				}
				ended := make(chan struct{})
				go func() { w.run(t.Context()); close(ended) }()
				time.Sleep(from)
				before := f.becomes(dedupe.ReplayPaused, broken)
				for range 100 { // for ten seconds
					w.poke()
					time.Sleep(100 * time.Millisecond)
				}
				if n := f.becomes(dedupe.ReplayCancelled, nil) - before; n < 9 || n > 11 {
					t.Errorf("%d reads in ten seconds", n)
				}
				w.poke()
				select {
				case <-ended:
				case <-time.After(2 * time.Second):
					t.Error("it was cancelled, and goes on")
				}
			})
		})
	}
}

// Nothing is sent while it is not known what an operator has changed.
func TestNothingIsSentBeforeTheOperatorsWordIsRead(t *testing.T) {
	f, w := newFaulty(1)
	f.becomes(dedupe.ReplayRunning, nil)
	now := time.Now()
	if !w.load(now) {
		t.Fatal(w.problem)
	}
	w.left = []dedupe.ReplayItem{{N: 0}}
	if s := Next(w.facts(now)); s.Do != Send {
		t.Fatalf("%s, want a letter to be sent", s.Do)
	}
	w.stale = true
	if s := Next(w.facts(now)); s.Do != Wait {
		t.Errorf("%s of a replay that may be paused", s.Do)
	}
}

// However low the rate, the worker looks again in a while: neither never nor all the time.
func TestALowRateIsWaitedFor(t *testing.T) {
	for rate, want := range map[float64]time.Duration{1: time.Second, 0.02: 50 * time.Second, 0.001: longest, 1e-10: longest, 1e-12: longest, 5e-324: longest} {
		f, w := newFaulty(rate)
		f.becomes(dedupe.ReplayRunning, nil)
		now := time.Now()
		if !w.load(now) {
			t.Fatal(w.problem)
		}
		w.left = []dedupe.ReplayItem{{N: 0}}
		w.limit.ReserveN(now, 1)
		if got := w.pause(now).Round(time.Millisecond); got != want || w.facts(now).Allowed != 0 {
			t.Errorf("at a rate of %g: a pause of %s, want %s; allowed %d", rate, got, want, w.facts(now).Allowed)
		}
	}
}
