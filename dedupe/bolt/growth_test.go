package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
)

// B62: expired records give their space back, a missing bucket does not stop the
// sweep, and a claim in a big file writes little.
func TestB62GrowthAndMissingBucket(t *testing.T) {
	const n = 10_000 / scale
	path := filepath.Join(t.TempDir(), "l.db")
	synctest.Test(t, func(t *testing.T) {
		l := open(t, path, bolt.Options{Create: true, Retention: time.Second, Sync: time.Hour})
		fill(t, l, 0, n)
		first := l.Stats()
		if first.Terminal == 0 {
			t.Fatal("nothing was stored")
		}
		if err := l.DropBucket("runs"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		swept := l.Stats()
		if swept.Terminal != 0 || swept.Expired != n {
			t.Errorf("%d records left, %d expired", swept.Terminal, swept.Expired)
		}
		if swept.SweepErrors == 0 || swept.SweepError == nil {
			t.Error("the missing bucket is not counted")
		}
		if _, err := l.Update(context.Background(), settled(1).Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{} }); !errors.Is(err, dedupe.ErrUnavailable) {
			t.Errorf("a mutation without its run: %v", err)
		}
		l.Close()
		// At start a missing bucket is damage: it may have held what must not run again.
		if _, err := bolt.Open(path, bolt.Options{Retention: time.Second}); !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("open without a bucket: %v", err)
		}
		l = open(t, path, bolt.Options{Retention: time.Hour, Horizon: time.Now(), Sync: time.Hour})
		fill(t, l, n, n)
		if second := l.Stats(); float64(second.FileBytes) > 1.3*float64(first.FileBytes) {
			t.Errorf("file %d bytes after the second round, %d after the first", second.FileBytes, first.FileBytes)
		}
		before := l.PageBytes()
		put(t, l, settled(3*n))
		if bytes := l.PageBytes() - before; bytes > 1<<20 {
			t.Errorf("one claim wrote %d bytes", bytes)
		}
	})
}

func TestSettledCallFitsInAKilobyte(t *testing.T) {
	n, err := bolt.StoredSize(settled(1))
	if err != nil || n > 1<<10 {
		t.Errorf("a settled call with a result of 300 bytes takes %d bytes (%v)", n, err)
	}
}

// A commit that bbolt itself refuses (no room) is an error and is got over.
func TestNoRoomLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l := open(t, path, bolt.WithMaxSize(bolt.Options{Create: true}, 1<<20))
	var full error
	n := 0
	for ; full == nil && n < 5000; n++ {
		r := settled(n)
		_, full = l.Update(context.Background(), r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r} })
	}
	if !errors.Is(full, dedupe.ErrUnavailable) {
		t.Fatalf("after %d records: %v", n, full)
	}
	for i := range n - 1 {
		if _, err := l.Record(settled(i).Call); err != nil {
			t.Fatalf("an acknowledged record is gone: %v", err)
		}
	}
	if _, err := l.Record(settled(n - 1).Call); !errors.Is(err, dedupe.ErrNotFound) {
		t.Errorf("the refused record: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, bolt.Options{})
	if got := l.Stats().Terminal; got != n-1 {
		t.Errorf("%d records after reopening with room, want %d", got, n-1)
	}
	put(t, l, settled(n))
}

func TestIndexMemory(t *testing.T) {
	const n = 1_000_000 / scale
	calls := make([]string, 1000)
	for i := range calls {
		calls[i] = dedupe.CallID("t", "r", "tool", fmt.Sprint(i))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := bolt.NewIndex()
	for i := range n { // a mix of real IDs: the first half of one, the tail of another
		a, b := calls[i%1000], calls[i/1000]
		x.Add(a[:6]+b[:20], uint64(i+1))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := float64(after.HeapAlloc-before.HeapAlloc) / n; per > 64 {
		t.Errorf("%.1f bytes for each retained key, want at most 64", per)
	}
	if x.Count() != n {
		t.Errorf("count %d", x.Count())
	}
}

func TestIndexCollisions(t *testing.T) {
	x := bolt.NewIndex()
	const a, b, c = "aaaaaaaaaaaaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaaaaaaaaaaaa2", "aaaaaaaaaaaaaaaaaaaaaaaaa3"
	x.Add(a, 1)
	x.Add(b, 2)
	x.Add(c, 3)
	x.Remove(a, 1)
	x.Remove(a, 99) // not there
	if got := x.Candidates(b); !slices.Contains(got, 2) || !slices.Contains(got, 3) || len(got) != 2 {
		t.Errorf("candidates %v, want 2 and 3", got)
	}
	x.Remove(c, 3)
	x.Remove(b, 2)
	if got := x.Candidates(b); got != nil || x.Count() != 0 {
		t.Errorf("candidates %v, count %d after removing all", got, x.Count())
	}
}

func TestStartWithManyRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l := open(t, path, bolt.Options{Create: true, Sync: time.Hour})
	const n = 100_000 / scale
	many := make([]*dedupe.Record, n)
	for i := range many {
		call := dedupe.CallID("acme", "run_42", "payments.charge", fmt.Sprintf("step-%d", i))
		many[i] = &dedupe.Record{Call: call, DownstreamKey: call, Tenant: "acme", Run: "run_42", State: dedupe.Done, Settled: time.Now()}
	}
	if err := l.Import(context.Background(), many); err != nil {
		t.Fatal(err)
	}
	l.Close()
	started := time.Now()
	l = open(t, path, bolt.Options{})
	if took := time.Since(started); took > 3*time.Second {
		t.Errorf("opening took %s", took)
	}
	if l.Stats().Terminal != n {
		t.Errorf("%d records", l.Stats().Terminal)
	}
	if _, err := l.Record(many[n/2].Call); err != nil {
		t.Error(err)
	}
}

// A backup taken while calls settle is a ledger of its own, with a state that was.
func TestBackupWhileWriting(t *testing.T) {
	dir := t.TempDir()
	l := open(t, filepath.Join(dir, "l.db"), bolt.Options{Create: true, Sync: time.Hour})
	ref := dedupe.Ref{Tenant: "acme", Root: "run_42"}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r := settled(i) // the run and the record change together
			_, err := l.Update(context.Background(), dedupe.Ref{Tenant: ref.Tenant, Root: ref.Root, Call: r.Call}, func(v dedupe.View) dedupe.Change {
				if v.Run == nil {
					v.Run = budget.New(ref.Tenant, ref.Root, time.Now())
				}
				v.Run.Repairs++
				return dedupe.Change{Record: r, Run: v.Run}
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 5 {
		time.Sleep(20 * time.Millisecond)
		var b bytes.Buffer
		if n, err := l.Backup(&b); err != nil || n != int64(b.Len()) {
			t.Fatalf("backup: %d bytes of %d, %v", n, b.Len(), err)
		}
		path := filepath.Join(dir, fmt.Sprintf("backup%d.db", i))
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		copied := open(t, path, bolt.Options{})
		run, err := copied.Run(ref.Tenant, ref.Root)
		if err != nil || run.Repairs != copied.Stats().Terminal {
			t.Errorf("backup has %d records and a run that counts %+v (%v)", copied.Stats().Terminal, run, err)
		}
		if copied.ID() != l.ID() {
			t.Error("a backup is the same ledger")
		}
	}
	close(stop)
	wg.Wait()
}

// A commit does not grow with the pages that are free, of which many calls that were
// settled or have expired leave many: the list of them is not in the file.
func TestACommitWritesNoListOfFreePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l := open(t, path, bolt.Options{Create: true})
	fill(t, l, 0, 2000)
	for n := range 20 {
		put(t, l, settled(5000+n))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range livePages(t, path) {
		if p.Type == "freelist" {
			t.Errorf("page %d is such a list", p.ID)
		}
	}
	if l = open(t, path, bolt.Options{}); l.Stats().Terminal != 2020 {
		t.Errorf("%+v", l.Stats())
	}
}
