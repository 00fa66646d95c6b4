package bolt_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

// waiting is a call between attempts whose schedule is published.
func waiting(n int) *dedupe.Record {
	r := settled(n)
	r.State, r.Outcome, r.Settled, r.Token = dedupe.Waiting, nil, time.Time{}, 1
	r.Due = time.Unix(1_900_000_000+int64(n), 0).UTC()
	r.Request = &schemas.Request{Tenant: r.Tenant, Run: r.Run, Tool: r.Tool, Key: r.Key, Body: fmt.Appendf(nil, `{"n":%d}`, n),
		Header: schemas.Header{schemas.HeaderRun: {r.Run}, schemas.HeaderKey: {r.Key}}}
	return r
}

// Waiting calls cost little memory, and a change beside many of them writes little.
func TestManyWaitingCallsWeighLittle(t *testing.T) {
	const n = 100_000 / scale
	path := filepath.Join(t.TempDir(), "l.db")
	l := open(t, path, bolt.Options{Create: true, Sync: time.Hour})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for at := 0; at < n; at += 1000 {
		var some []*dedupe.Record
		for i := range 1000 {
			some = append(some, waiting(at+i))
		}
		if err := l.Import(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if per := (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / n; per > 300 {
		t.Errorf("%.0f bytes of memory for each waiting call, want at most 300", per)
	}
	if _, waiting := l.Counts(); waiting != n {
		t.Fatalf("%d calls wait, want %d", waiting, n)
	}
	if per := l.Stats().FileBytes / n; per > 2048 {
		t.Errorf("%d bytes of file for each waiting call", per)
	}
	pages := l.PageBytes()
	for i := range 100 {
		r := settled(n + i)
		r.State = dedupe.InFlight
		put(t, l, r)
	}
	if per := (l.PageBytes() - pages) / 100; per > 64<<10 {
		t.Errorf("a claim beside %d waiting calls wrote %d bytes", n, per)
	}
}

// A parked record is the whole record: read, listed, changed and settled like one in
// memory, before and after a restart.
func TestAParkedRecordIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l := open(t, path, bolt.Options{Create: true})
	var want []*dedupe.Record
	for n := range 5 {
		want = append(want, waiting(n))
		put(t, l, want[n])
	}
	for range 2 {
		for n := range 5 {
			got, err := l.Record(want[n].Call)
			if diff := cmp.Diff(want[n], got); diff != "" || err != nil {
				t.Errorf("%v, record (-want +got):\n%s", err, diff)
			}
		}
		var listed []string
		if err := l.Records(0, func(_ uint64, r *dedupe.Record) bool { listed = append(listed, r.Call); return true }); err != nil || len(listed) != 5 {
			t.Errorf("listed %v, %v", listed, err)
		}
		if got, err := l.Resolve(waiting(3).Call[:14]); err != nil || !slices.Equal(got, []string{waiting(3).Call}) {
			t.Errorf("resolved %v, %v", got, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, path, bolt.Options{})
	}
	r := waiting(2)
	r.State = dedupe.InFlight // its turn has come
	put(t, l, r)
	put(t, l, settled(2))
	if _, waiting := l.Counts(); waiting != 4 || l.Stats().Terminal != 1 {
		t.Errorf("%d calls wait, %d are settled, want 4 and 1", waiting, l.Stats().Terminal)
	}
	if got, err := l.Record(r.Call); err != nil || got.State != dedupe.Done {
		t.Errorf("%+v, %v", got, err)
	}
}
