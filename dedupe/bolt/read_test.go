package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

func TestRecordsNewestFirst(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), bolt.Options{Create: true})
	var want []string
	for i := range 200 {
		put(t, l, settled(i))
		want = append(want, settled(i).Call)
	}
	live := settled(1000)
	live.State, live.Outcome = dedupe.Waiting, nil
	put(t, l, live)
	want = append(want, live.Call)
	slices.Reverse(want)
	var got []string
	var after uint64
	for pages := 0; pages < 100; pages++ { // three at a time, as a console does
		n := 0
		err := l.Records(after, func(seq uint64, r *dedupe.Record) bool {
			if n == 3 {
				return false
			}
			if n++; seq != math.MaxUint64 || after == 0 {
				got, after = append(got, r.Call), seq
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A dead call is listed at every moment: also between the publication of its letter
// and the commit, whosever that is, which moves it among the settled ones.
func TestADeadCallIsListedBeforeTheNextCommit(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), bolt.Options{Create: true})
	dead := settled(1)
	dead.State, dead.Slot, dead.Letter = dedupe.Dead, dedupe.SlotLetter, schemas.LetterActive
	listed := func(when string) {
		t.Helper()
		n := 0
		if err := l.Records(0, func(_ uint64, r *dedupe.Record) bool { n++; return r.Call == dead.Call }); err != nil || n != 1 {
			t.Errorf("%s it is listed %d times, %v", when, n, err)
		}
	}
	put(t, l, dead)
	listed("before its letter is published")
	l.Published(dedupe.Publication{Call: dead.Call, Token: dead.Token, Generation: dead.Generation, Slot: dedupe.SlotLetter})
	if _, _, slots := l.Pending(); slots != 0 {
		t.Fatalf("%d slots are still owed", slots)
	}
	listed("after that")
	put(t, l, settled(2))
	n := 0
	if err := l.Records(0, func(uint64, *dedupe.Record) bool { n++; return true }); err != nil || n != 2 {
		t.Errorf("after the next commit %d calls are listed, %v", n, err)
	}
}

func TestResolve(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), bolt.Options{Create: true})
	fill(t, l, 0, 500)
	live := settled(1000)
	live.State = dedupe.InFlight
	put(t, l, live)
	for _, call := range []string{settled(7).Call, live.Call} {
		for _, n := range []int{8, 12, 13, 14, 20, 26} {
			got, err := l.Resolve(call[:n])
			if err != nil || len(got) != 1 || got[0] != call {
				t.Errorf("%d characters of %s: %v, %v", n, call, got, err)
			}
		}
	}
	if got, err := l.Resolve(""); err != nil || len(got) < 2 || len(got) > 16 {
		t.Errorf("no prefix: %d calls, %v", len(got), err)
	}
	if got, err := l.Resolve("vvvvvvvvvvvvvvvvvvvvvvvvvv"); err != nil || len(got) != 0 {
		t.Errorf("unknown: %v, %v", got, err)
	}
}

// A look-up never misses a record that moves between live and settled.
func TestReadersNeverMissAMovingRecord(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), bolt.Options{Create: true, Sync: time.Hour})
	r := settled(1)
	put(t, l, r)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := l.Record(r.Call); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 500 {
		_, err := l.Update(context.Background(), r.Ref(), func(v dedupe.View) dedupe.Change {
			v.Record.State = []dedupe.State{dedupe.Waiting, dedupe.Done, dedupe.Done}[i%3]
			return dedupe.Change{Record: v.Record}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if s := l.Stats(); s.Terminal+s.Live != 1 {
		t.Errorf("%d terminal and %d live copies of one record", s.Terminal, s.Live)
	}
}

func TestRunsPausesHorizonAndCompaction(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "l.db")
	horizon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	l := open(t, path, bolt.Options{Create: true, Horizon: horizon})
	for i := range 150 {
		root := fmt.Sprintf("r%03d", i)
		_, err := l.Update(context.Background(), dedupe.Ref{Tenant: "acme", Root: root}, func(dedupe.View) dedupe.Change {
			return dedupe.Change{Run: budget.New("acme", root, time.Now())}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fill(t, l, 0, 300)
	known := settled(5)
	known.Tool = "another"
	if err := l.Import(context.Background(), []*dedupe.Record{known}); err != nil {
		t.Fatal(err)
	}
	pause := dedupe.Pause{At: horizon, By: "ann", Why: "deploy"}
	receipt, err := l.SetPause(context.Background(), "payments.charge", &pause, func(was *dedupe.Pause) dedupe.Audit {
		return dedupe.Audit{Action: "pause", By: "ann", Before: was.String()}
	})
	if err != nil || len(receipt.Audit) != 1 || receipt.Audit[0].Number == 0 {
		t.Fatalf("receipt %+v, %v", receipt, err)
	}
	if err := l.Compact(filepath.Join(dir, "open.db")); err != nil {
		t.Fatal(err)
	}
	if err := l.Compact(path); err == nil {
		t.Error("compacting onto a file that exists: want an error")
	}
	l.Close()
	for _, name := range []string{"l.db", "open.db"} {
		l := open(t, filepath.Join(dir, name), bolt.Options{})
		runs := 0
		if err := l.Runs(func(*budget.Run) bool { runs++; return true }); err != nil || runs != 150 || l.Stats().Runs != 150 {
			t.Errorf("%s: %d runs, counted %d, %v", name, runs, l.Stats().Runs, err)
		}
		if diff := cmp.Diff(map[string]dedupe.Pause{"payments.charge": pause}, l.Pauses()); diff != "" {
			t.Errorf("%s: pauses: %s", name, diff)
		}
		r, err := l.Record(known.Call)
		if err != nil || r.Tool != "payments.charge" || l.Stats().Terminal != 300 {
			t.Errorf("%s: a known call was imported over: %+v %v", name, r, err)
		}
		results, audits, slots := l.Pending()
		if results != 0 || audits != 1 || slots != 0 {
			t.Errorf("%s: pending %d %d %d", name, results, audits, slots)
		}
		_, err = l.Update(context.Background(), r.Ref(), func(v dedupe.View) dedupe.Change {
			if !v.Horizon.Equal(horizon) {
				t.Errorf("%s: horizon %s", name, v.Horizon)
			}
			return dedupe.Change{}
		})
		receipt, err2 := l.SetPause(context.Background(), "payments.charge", nil, func(was *dedupe.Pause) dedupe.Audit {
			return dedupe.Audit{Action: "resume", Before: was.String()}
		})
		if err := errors.Join(err, err2); err != nil || len(l.Pauses()) != 0 || receipt.Audit[0].Number != 2 {
			t.Errorf("%s: resume: %v, %+v", name, err, receipt)
		}
	}
}

// With a sync interval commits are synced within it, and at Close.
func TestSyncInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "l.db")
		l := open(t, path, bolt.Options{Create: true, Sync: 100 * time.Millisecond})
		put(t, l, settled(1))
		if !l.Unsynced() {
			t.Error("synced by the commit itself")
		}
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		if l.Unsynced() {
			t.Error("not synced after the interval")
		}
		l.Close()
		open(t, path, bolt.Options{})
	})
}

// Every field of a record survives the file.
func TestRecordRoundTrip(t *testing.T) {
	full := settled(1)
	full.Outcome.Structured = []byte(`{"id":9007199254740993,"html":"<a&b>"}`)
	bare := &dedupe.Record{Call: "x", DownstreamKey: "the agent's own", State: dedupe.Waiting}
	other := settled(2)
	other.Run = "another/payer"
	attempts := settled(3)
	attempts.Outcome.Attempts = nil
	for _, r := range []*dedupe.Record{full, bare, other, attempts} {
		got, err := bolt.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		want := r.Clone()
		if want.Outcome != nil && want.Outcome.Attempts == nil {
			o := *want.Outcome
			o.Attempts = got.Outcome.Attempts[:0]
			want.Outcome = &o
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := bolt.DecodeRecord(append([]byte{9}, make([]byte, 40)...)); err == nil || errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("a newer version: %v", err)
	}
}
