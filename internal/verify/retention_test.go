package verify_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/internal/natstest"
)

// brief keeps results, and letters that were dealt with, for ten minutes, and the
// ledger's records and runs for twenty: the longest call lasts ten.
var brief = strings.NewReplacer("retention: 168h", "retention: 10m", "max_deadline: 2h", "max_deadline: 10m",
	"max_retry_after: 1h", "max_retry_after: 5m", "elapsed: 12h", "elapsed: 10m").Replace(configuration)

// deed is what somebody does at a minute.
type deed struct {
	minute int
	do     func(w *world)
}

func (w *world) ask(verb string, query any) {
	w.t.Helper()
	if err := w.ctl.Ask(w.t.Context(), verb, query, &control.Done{}); err != nil {
		w.t.Fatalf("%s: %v", verb, err)
	}
}

func calls(tool, run, key string) func(*world) {
	return func(w *world) { w.publish(tool, run, key) }
}

var letterID = dedupe.LetterID(call("t.wire"), 0)

func discards(w *world) {
	w.ask(control.VerbDiscard, control.LetterQuery{ID: letterID, Why: "test"})
}

func purges(w *world) {
	w.ask(control.VerbPurge, control.PurgeQuery{ID: letterID, PurgeOptions: deadletter.PurgeOptions{Active: true, Why: "test"}})
}

func resolves(v deadletter.Verdict) func(*world) {
	return func(w *world) {
		w.ask(control.VerbResolve, control.ResolveQuery{ID: letterID, ResolveOptions: deadletter.ResolveOptions{Verdict: v, Result: []byte(`"paid"`), Why: "test"}})
	}
}

func replays(into string) func(*world) {
	return func(w *world) {
		w.ask(control.VerbReplay, control.ReplayQuery{ID: letterID, ReplayOptions: deadletter.ReplayOptions{IncludeUnknown: true, NewRun: into, Why: "test"}})
	}
}

// left counts what is still there.
func (w *world) left() string {
	w.t.Helper()
	records, runs := 0, 0
	seen := map[string]bool{}
	err := w.ledger.Records(0, func(seq uint64, r *dedupe.Record) bool {
		if seq == math.MaxUint64 || !seen[r.Call] {
			records++
		}
		seen[r.Call] = true
		return true
	})
	if err == nil {
		err = w.ledger.Runs(func(*budget.Run) bool { runs++; return true })
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%d results, %d letters, %d records, %d runs", w.stored("TOLLGATE_RESULTS"), w.stored("TOLLGATE_DLQ"), records, runs)
}

func (w *world) stored(stream string) uint64 {
	w.t.Helper()
	st, err := w.js.Stream(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	return st.CachedInfo().State.Msgs
}

// What goes because its time has come is no fault, at any minute until all of it is gone.
func TestGreenWhileThingsExpire(t *testing.T) {
	const nothing = "0 results, 0 letters, 0 records, 0 runs"
	for _, tc := range []struct {
		name  string
		deeds []deed
		left  string
	}{
		{"a result older than its stream keeps", []deed{{0, calls("t.read", "run/child", "k")}}, nothing},
		{"a letter that nobody deals with keeps its record and its run", []deed{{0, calls("t.wire", "run", "k")}}, "0 results, 1 letters, 1 records, 1 runs"},
		{"a letter discarded at once", []deed{{0, calls("t.wire", "run", "k")}, {1, discards}}, nothing},
		{"a letter discarded long after its result went", []deed{{0, calls("t.wire", "run", "k")}, {18, discards}}, nothing},
		{"a letter purged at once", []deed{{0, calls("t.wire", "run", "k")}, {1, purges}}, nothing},
		{"a letter purged long after its result went", []deed{{0, calls("t.wire", "run", "k")}, {18, purges}}, nothing},
		{"a letter discarded, then purged", []deed{{0, calls("t.wire", "run", "k")}, {9, discards}, {9, purges}}, nothing},
		{"a letter that did happen, as is known late", []deed{{0, calls("t.wire", "run", "k")}, {18, resolves(deadletter.Happened)}}, nothing},
		{"a letter that did not happen", []deed{{0, calls("t.wire", "run", "k")}, {18, resolves(deadletter.DidNotHappen)}}, "0 results, 1 letters, 1 records, 1 runs"},
		{"a letter replayed into another run, long after its own was of use", []deed{{0, calls("t.wire", "run", "k")}, {25, replays("elsewhere")}}, "0 results, 1 letters, 1 records, 1 runs"},
		{"a run that is used again while a record of its forgotten past is kept", []deed{
			{0, calls("t.wire", "run", "k")}, {18, discards}, {25, calls("t.read", "run", "again")}}, nothing},
		{"a run that is in use for longer than anything is kept, and refuses at last", []deed{
			{0, calls("t.read", "run", "1")}, {7, calls("t.read", "run", "2")}, {8, calls("t.wire", "run", "k")}, {26, calls("t.flaky", "run", "late")}, {30, discards}}, "0 results, 1 letters, 1 records, 1 runs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				w := newWorldWith(t, brief)
				for minute := range 75 {
					for _, d := range tc.deeds {
						if d.minute == minute {
							d.do(w)
						}
					}
					time.Sleep(10 * time.Second)
					if report := w.verify(); !report.OK {
						t.Fatalf("minute %d, %s, faults:\n%s", minute, w.left(), faults(report))
					}
					time.Sleep(50 * time.Second)
				}
				if left := w.left(); left != tc.left {
					t.Errorf("left in the end: %s, want %s", left, tc.left)
				}
			})
		})
	}
}

// What goes before its time is a fault, however old its neighbours are.
func TestAgeExcusesOnlyWhatIsOld(t *testing.T) {
	letter := "tollgate.dlq.default.unknown_outcome.t.wire." + call("t.wire") + ".0"
	for _, tc := range []struct {
		name, check, says string
		deeds             []deed
		at                int
		seed              func(w *world)
	}{
		{"an active letter that went with the results", "I12", "is not in its stream", []deed{{0, calls("t.wire", "run", "k")}}, 30,
			func(w *world) { w.remove("TOLLGATE_DLQ", letter) }},
		{"a discarded letter that went too early", "I12", "is not in its stream", []deed{{0, calls("t.wire", "run", "k")}, {1, discards}}, 6,
			func(w *world) { w.remove("TOLLGATE_DLQ", letter) }},
		{"a young result that went with the old ones", "I1", "has nothing of it", []deed{{0, calls("t.flaky", "run", "k")}, {25, calls("t.read", "run", "k")}}, 30,
			func(w *world) { w.remove("TOLLGATE_RESULTS", "tollgate.results.default.run."+call("t.read")) }},
		{"an old run that was charged less than is left of its records", "I4", "was charged", []deed{{0, calls("t.wire", "run", "k")}, {25, calls("t.read", "run", "k")}}, 30,
			func(w *world) { w.tamper("t.read", spend("run", -1, 0)) }},
		{"a letter whose record went before it", "I10", "has no call in the ledger", []deed{{0, calls("t.read", "run", "k")}}, 30,
			func(w *world) { w.store(letter, nil, "") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				w := newWorldWith(t, brief)
				for minute := range tc.at {
					for _, d := range tc.deeds {
						if d.minute == minute {
							d.do(w)
						}
					}
					time.Sleep(time.Minute)
				}
				tc.seed(w)
				if report := w.verify(); report.OK || !blames(report, tc.check, tc.says) {
					t.Errorf("want a fault of %s that says %q, got:\n%s", tc.check, tc.says, faults(report))
				}
			})
		})
	}
}
