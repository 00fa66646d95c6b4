package verify_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"tollgate/dedupe"
	"tollgate/internal/natstest"
	"tollgate/schemas"
)

func TestGreenWhereNothingIsWrong(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.settled()
		report := w.verify()
		if !report.OK {
			t.Fatalf("faults:\n%s", faults(report))
		}
		for _, c := range report.Checks {
			if c.Checked == 0 {
				t.Errorf("%s (%s) looked at nothing", c.Name, c.What)
			}
		}
	})
}

// changed returns the record with f done to a copy of it and of its outcome.
func changed(f func(r *dedupe.Record, o *schemas.Outcome)) func(dedupe.View) dedupe.Change {
	return func(v dedupe.View) dedupe.Change {
		o := *v.Record.Outcome
		v.Record.Outcome = &o
		f(v.Record, &o)
		return dedupe.Change{Record: v.Record}
	}
}

// spend changes what an account of the run has spent.
func spend(path string, attempts, effects int) func(dedupe.View) dedupe.Change {
	return func(v dedupe.View) dedupe.Change {
		a := v.Run.Accounts[path]
		a.Attempts, a.Effects = a.Attempts+attempts, a.Effects+effects
		v.Run.Accounts[path] = a
		return dedupe.Change{Run: v.Run}
	}
}

// Every check can fail, names what is wrong, and says it once the fault is there.
func TestEveryFaultIsFound(t *testing.T) {
	for _, tc := range []struct {
		name, check, says string
		seed              func(w *world)
	}{
		{"a status that is none", "I1", "status", func(w *world) {
			w.tamper("t.read", changed(func(_ *dedupe.Record, o *schemas.Outcome) { o.Status = schemas.Rejected }))
		}},
		{"an outcome of another generation", "I1", "generation 1", func(w *world) {
			w.tamper("t.read", changed(func(_ *dedupe.Record, o *schemas.Outcome) { o.Generation = 1 }))
		}},
		{"an outcome before the end", "I1", "has an outcome already", func(w *world) {
			o := w.record("t.read").Outcome
			w.tamper("t.later", func(v dedupe.View) dedupe.Change {
				v.Record.Outcome = o
				return dedupe.Change{Record: v.Record}
			})
		}},
		{"an end without an outcome", "I1", "without an outcome", func(w *world) {
			w.tamper("t.read", func(v dedupe.View) dedupe.Change {
				v.Record.Outcome = nil
				return dedupe.Change{Record: v.Record}
			})
		}},
		{"a result that is gone", "I1", "has nothing of it", func(w *world) {
			w.remove("TOLLGATE_RESULTS", "tollgate.results.default.run."+call("t.read"))
		}},
		{"a result of another outcome", "I1", "holds forged", func(w *world) {
			w.store("tollgate.results.default.run."+call("t.read"), nil, map[string]any{"id": "forged"})
		}},
		{"a transfer that left twice", "I2", "left 2 times", func(w *world) {
			w.tamper("t.wire", changed(func(r *dedupe.Record, _ *schemas.Outcome) { r.Attempts = append(r.Attempts, r.Attempts[0]) }))
		}},
		{"an account beyond its limit", "I3", "has spent 1006 of 1000 attempts", func(w *world) { w.tamper("t.read", spend("run", 1000, 0)) }},
		{"a parent that paid less than its child", "I3", "those below it", func(w *world) { w.tamper("t.read", spend("run", -1, 0)) }},
		{"an attempt charged and not recorded", "I4", "was charged 7 attempts", func(w *world) { w.tamper("t.read", spend("run", 1, 0)) }},
		{"a side effect refunded that was sent", "I4", "and 3 side effects, and 6 and 4 are recorded", func(w *world) { w.tamper("t.read", spend("run", 0, -1)) }},
		{"an attempt recorded that nobody paid for", "I4", "was charged 6 attempts", func(w *world) {
			w.tamper("t.read", changed(func(r *dedupe.Record, _ *schemas.Outcome) { r.Attempts = append(r.Attempts, r.Attempts[0]) }))
		}},
		{"a letter of no call", "I10", "has no call in the ledger", func(w *world) {
			w.store("tollgate.dlq.default.failed.t.read."+dedupe.CallID("default", "run", "t.read", "other")+".0", nil, "")
		}},
		{"a letter ahead of its call", "I10", "is ahead of its call", func(w *world) {
			w.store("tollgate.dlq.default.failed.t.read."+call("t.read")+".1", nil, "")
		}},
		{"a letter that is gone", "I12", "is not in its stream", func(w *world) {
			w.remove("TOLLGATE_DLQ", "tollgate.dlq.default.unknown_outcome.t.wire."+call("t.wire")+".0")
		}},
		{"a letter that tells another outcome", "I12", `tells outcome "forged"`, func(w *world) {
			w.store("tollgate.dlq.default.unknown_outcome.t.wire."+call("t.wire")+".0", map[string]string{schemas.HeaderOutcome: `{"id":"forged"}`}, "")
		}},
		{"a schedule that is gone", "I12", "neither a schedule nor a retry", func(w *world) {
			w.remove("TOLLGATE_RETRY", "tollgate.sched.calls.default."+call("t.later"))
		}},
		{"a retry newer than the ledger", "I12", "the ledger is older than the streams", func(w *world) {
			w.store("tollgate.retry.calls.default."+call("t.later")+".t.later", map[string]string{schemas.HeaderToken: "99"}, "")
		}},
		{"a retry of no call", "I12", "has no call in the ledger", func(w *world) {
			w.store("tollgate.retry.calls.default."+dedupe.CallID("default", "x", "t.later", "k")+".t.later", nil, "")
		}},
		{"a record under another call's ID", "I13", "belongs under", func(w *world) {
			w.tamper("t.read", changed(func(r *dedupe.Record, o *schemas.Outcome) { r.Key, o.Key = "k2", "k2" }))
		}},
		{"an uncertain write that nobody looks at", "I14", "without anybody being asked", func(w *world) {
			w.tamper("t.wire", changed(func(_ *dedupe.Record, o *schemas.Outcome) { o.NextAction = schemas.Return }))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				w := newWorld(t)
				w.settled()
				tc.seed(w)
				report := w.verify()
				if report.OK || !blames(report, tc.check, tc.says) {
					t.Errorf("want a fault of %s that says %q, got:\n%s", tc.check, tc.says, faults(report))
				}
			})
		})
	}
}

// What is under way is no fault: verify runs beside the traffic.
func TestGreenUnderTraffic(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		var publishing sync.WaitGroup
		for p := range 4 {
			publishing.Go(func() {
				for i := range 60 {
					w.publish([]string{"t.read", "t.flaky", "t.wire"}[i%3], fmt.Sprintf("run%d/%d", p, i%4), fmt.Sprintf("k%d", i))
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		for range 5 {
			time.Sleep(200 * time.Millisecond)
			if report := w.verify(); !report.OK {
				t.Fatalf("faults under traffic:\n%s", faults(report))
			}
		}
		publishing.Wait()
		time.Sleep(10 * time.Second)
		report := w.verify()
		if !report.OK || report.Checks[0].Checked != 240 {
			t.Fatalf("%d calls checked, faults:\n%s", report.Checks[0].Checked, faults(report))
		}
	})
}

// A replay into another run leaves the earlier attempts with who paid for them.
func TestEarlierPayersAddUp(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.settled()
		w.tamper("t.wire", func(v dedupe.View) dedupe.Change {
			r := v.Record
			r.Generation++
			r.PaidUntilNow(r.Run, true)
			r.Run, r.State, r.Outcome = "elsewhere", dedupe.Waiting, nil
			r.Slot = dedupe.SlotWake // as after a replay that is not published yet
			return dedupe.Change{Record: r}
		})
		if report := w.verify(); !report.OK {
			t.Errorf("faults:\n%s", faults(report))
		}
	})
}
