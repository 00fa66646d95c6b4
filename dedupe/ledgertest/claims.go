package ledgertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
)

var maxima = budget.Maxima{Attempts: 7, SideEffects: 5, Elapsed: time.Hour, Accounts: 8}

// I3: whatever races, no account is ever above its limit.
func siblings(t *testing.T, b *bench) {
	const racers = 50
	var wg sync.WaitGroup
	won := make(chan string, racers)
	for i := range racers {
		wg.Go(func() {
			r := call(i, dedupe.InFlight)
			paid := false
			_, err := b.Update(context.Background(), r.Ref(), func(v dedupe.View) dedupe.Change {
				run := v.Run
				if run == nil {
					run = budget.New("t1", "r1", time.Now())
				}
				if err := run.Open(r.Run, budget.Named{}, maxima, time.Now()); err != nil {
					return dedupe.Change{}
				}
				if no := run.Charge(r.Run, true); no.Dimension != 0 {
					return dedupe.Change{}
				}
				paid = true
				return dedupe.Change{Record: r, Run: run}
			})
			if err == nil && paid {
				won <- r.Call
			}
		})
	}
	wg.Wait()
	close(won)
	check := func() {
		t.Helper()
		run, err := b.Run("t1", "r1")
		if err != nil {
			t.Fatal(err)
		}
		for path, a := range run.Accounts {
			if a.Effects != maxima.SideEffects || a.Attempts != maxima.SideEffects {
				t.Errorf("account %s spent %d attempts and %d side effects, want %d of each", path, a.Attempts, a.Effects, maxima.SideEffects)
			}
		}
	}
	if len(won) != maxima.SideEffects {
		t.Errorf("%d siblings passed, want %d", len(won), maxima.SideEffects)
	}
	check()
	b.crash()
	check()
	for c := range won {
		b.record(c)
	}
}

// Changes that share a commit must see each other: each raises the same fence.
func staged(t *testing.T, b *bench) {
	first := call(1, dedupe.InFlight)
	b.put(first)
	before := b.Commits()
	const n = 100
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			b.update(first.Ref(), func(v dedupe.View) dedupe.Change {
				v.Record.Fence++
				return dedupe.Change{Record: v.Record}
			})
		})
	}
	wg.Wait()
	if got := b.record(first.Call).Fence; got != n {
		t.Errorf("fence %d after %d changes: some saw stale data", got, n)
	}
	if b.Commits()-before >= n {
		t.Error("no two changes shared a commit: the test saw nothing")
	}
}

func copies(t *testing.T, b *bench) {
	r := call(1, dedupe.Waiting)
	run := budget.New("t1", "r1", time.Now())
	run.Cancel("r1", "why", time.Now())
	b.update(r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r, Run: run} })
	r.Note, r.Attempts[0].Code = "changed by the caller afterwards", "changed"
	v := b.view(r.Ref())
	v.Record.Attempts[0].Code, v.Record.Tool = "changed", "changed"
	v.Run.Accounts["r1"] = budget.Account{}
	b.record(r.Call).Attempts[0].Code = "changed"
	got := b.view(r.Ref())
	if got.Record.Note != "" || got.Record.Tool != "pay" || got.Record.Attempts[0].Code != "OK" {
		t.Errorf("the stored record changed: %+v", got.Record)
	}
	if !got.Run.Accounts["r1"].Cancelled {
		t.Error("the stored run changed")
	}
}

// A replay into another run moves the bill.
func payer(t *testing.T, b *bench) {
	r := call(1, dedupe.InFlight)
	b.update(r.Ref(), func(dedupe.View) dedupe.Change {
		return dedupe.Change{Record: r, Run: budget.New("t1", "r1", time.Now())}
	})
	other := dedupe.Ref{Tenant: "t1", Root: "elsewhere", Call: r.Call}
	if v := b.view(other); v.Run == nil || v.Run.Root != "r1" {
		t.Errorf("run of the view: %+v, want the record's", v.Run)
	}
	b.update(other, func(v dedupe.View) dedupe.Change {
		v.Record.Run = "r2/x"
		return dedupe.Change{Record: v.Record, Run: budget.New("t1", "r2", time.Now())}
	})
	b.restart()
	if v := b.view(r.Ref()); v.Run == nil || v.Run.Root != "r2" || v.Record.Root != "r1" {
		t.Errorf("after the move: run %+v, root %s", v.Run, v.Record.Root)
	}
	if v := b.view(dedupe.Ref{Tenant: "t1", Root: "r1"}); v.Run == nil || v.Record != nil {
		t.Errorf("a run alone: %+v", v)
	}
}

func failure(t *testing.T, b *bench) {
	r := call(1, dedupe.Waiting)
	r.Slot = dedupe.SlotSchedule
	b.put(r)
	b.Published(dedupe.Publication{Call: r.Call, Token: 1, Slot: dedupe.SlotSchedule})
	broken := errors.New("no space left")
	b.FailCommits(broken)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			n := call(100+i, dedupe.Done)
			_, err := b.Update(context.Background(), n.Ref(), func(v dedupe.View) dedupe.Change {
				return dedupe.Change{Record: n, Result: true, Audit: []dedupe.Audit{{Action: "x"}}}
			})
			if !errors.Is(err, dedupe.ErrUnavailable) || !errors.Is(err, broken) {
				t.Errorf("error %v, want one that wraps ErrUnavailable and the cause", err)
			}
			if !b.gone(n.Call) {
				t.Error("a failed commit left a record in memory")
			}
		})
	}
	wg.Wait()
	time.Sleep(3 * time.Second) // commits of its own fail too
	b.FailCommits(nil)
	if slots, results, audits := b.Owed(); len(slots)+len(results)+len(audits) != 0 {
		t.Errorf("owed after a failure: %d %d %d", len(slots), len(results), len(audits))
	}
	if n := b.settle(call(2, dedupe.Done)); n != 1 {
		t.Errorf("first number after failed commits is %d, want 1", n)
	}
	b.crash()
	if got := b.record(r.Call); got.Slot != 0 {
		t.Error("a publication noted before the failure is not in the file")
	}
}

func panics(t *testing.T, b *bench) {
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			r := call(i, dedupe.InFlight)
			_, err := b.Update(context.Background(), r.Ref(), func(v dedupe.View) dedupe.Change {
				if i%2 == 0 {
					panic("boom")
				}
				return dedupe.Change{Record: r}
			})
			if (err != nil) != (i%2 == 0) || err != nil && !errors.Is(err, dedupe.ErrUnavailable) {
				t.Errorf("change %d: error %v", i, err)
			}
			if b.gone(r.Call) != (i%2 == 0) {
				t.Errorf("change %d: stored or not against its error", i)
			}
		})
	}
	wg.Wait()
}

func unstorable(t *testing.T, b *bench) {
	r := call(1, dedupe.Done)
	_, err := b.Update(context.Background(), r.Ref(), func(v dedupe.View) dedupe.Change {
		return dedupe.Change{Record: r, Run: budget.New("t1", "r1", time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)), Result: true} // no such year can be written
	})
	if !errors.Is(err, dedupe.ErrUnavailable) || !b.gone(r.Call) {
		t.Errorf("error %v", err)
	}
	if _, err := b.Run("t1", "r1"); !errors.Is(err, dedupe.ErrNotFound) {
		t.Errorf("half of a refused change is stored: %v", err)
	}
}

func cancelled(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := call(1, dedupe.InFlight)
	_, err := b.Update(ctx, r.Ref(), func(v dedupe.View) dedupe.Change { return dedupe.Change{Record: r} })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, dedupe.ErrUnavailable) || !b.gone(r.Call) {
		t.Errorf("cancelled before: %v", err)
	}
	// Cancelled once the mutation runs: the caller must learn that it was committed.
	ctx, cancel = context.WithCancel(context.Background())
	_, err = b.Update(ctx, r.Ref(), func(v dedupe.View) dedupe.Change { cancel(); return dedupe.Change{Record: r} })
	if err != nil || b.gone(r.Call) {
		t.Errorf("cancelled inside: %v", err)
	}
	// Cancelled behind a commit that takes long.
	release := make(chan struct{})
	go b.Update(context.Background(), r.Ref(), func(dedupe.View) dedupe.Change { <-release; return dedupe.Change{} })
	synctest.Wait()
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	queued := call(2, dedupe.InFlight)
	_, err = b.Update(ctx, queued.Ref(), func(v dedupe.View) dedupe.Change { return dedupe.Change{Record: queued} })
	close(release)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, dedupe.ErrUnavailable) {
		t.Errorf("cancelled in the queue: %v", err)
	}
	if b.update(r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{} }); !b.gone(queued.Call) {
		t.Error("a change whose caller was told that it did not run has run")
	}
}

func groups(t *testing.T, b *bench) {
	const n = 400
	var wg sync.WaitGroup
	before := b.Commits()
	for i := range n {
		wg.Go(func() { b.settle(call(i, dedupe.Done)) })
	}
	wg.Wait()
	if commits := b.Commits() - before; commits > n/10 {
		t.Errorf("%d commits for %d concurrent changes", commits, n)
	}
	if _, results, _ := b.Owed(); len(results) != n {
		t.Errorf("%d results owed, want %d", len(results), n)
	}
}

func closed(t *testing.T, b *bench) {
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	_, err := b.Update(context.Background(), dedupe.Ref{Tenant: "t1", Root: "r1"}, func(dedupe.View) dedupe.Change {
		panic("ran in a closed ledger")
	})
	if !errors.Is(err, dedupe.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}
