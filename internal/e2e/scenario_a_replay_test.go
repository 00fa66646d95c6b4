package e2e

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const letterTool = `  look.up: { function: tool, effect: read, concurrency: 16, policies: { calls: [slow], jobs: [slow] } }
`

// B26: a bulk replay, the same bulk replay started again, and another operator's
// single replay run each letter once.
func TestB26ALetterIsReplayedOnce(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		const all = 100
		for i := range all {
			w.Publish(worldtest.Msg{Tool: "look.up", Run: "r", Key: strconv.Itoa(i), Deadline: time.Hour})
		}
		w.Until(time.Minute, "every call is dead", func() bool { return w.Messages("TOLLGATE_DLQ") == all })
		w.Drained(10 * time.Second)
		var operators sync.WaitGroup
		var mu sync.Mutex
		done, late := map[string]int{}, 0
		one := func(id string) {
			err := w.Ctl.Ask(context.Background(), control.VerbReplay, control.ReplayQuery{ID: id}, &control.Done{})
			mu.Lock()
			defer mu.Unlock()
			var f *control.Failure
			switch {
			case err == nil:
				done[id]++
			case errors.As(err, &f) && f.Code == 409:
				late++
			default:
				t.Errorf("replay %s: %v", id, err)
			}
		}
		set := worldtest.Ask[control.LetterIDs](w, control.VerbLetterIDs, deadletter.Filter{}).IDs
		bulk := func(ids []string) {
			for _, id := range ids {
				one(id)
				time.Sleep(100 * time.Millisecond)
			}
		}
		operators.Go(func() { bulk(set) })
		operators.Go(func() { time.Sleep(time.Second); one(set[50]) })
		operators.Go(func() { time.Sleep(2 * time.Second); bulk(set) }) // the frozen set, started again
		operators.Wait()
		w.Drained(10 * time.Second)
		if len(done) != all || late != all+1 {
			t.Errorf("%d letters replayed, %d requests came too late", len(done), late)
		}
		for id, n := range done {
			if n != 1 {
				t.Errorf("%s replayed %d times", id, n)
			}
		}
		if s.N() != 2*all {
			t.Errorf("%d executions", s.N())
		}
		w.Charged("r", 2*all, 0)
		if p := w.Letters(deadletter.Filter{}); p.Total != 0 {
			t.Errorf("%d letters are still active", p.Total)
		}
		if p := w.Letters(deadletter.Filter{State: string(schemas.LetterResolved)}); p.Total != all {
			t.Errorf("%d letters are resolved", p.Total)
		}
		w.Verify()
	})
}

// B28: nothing is replayed but by an operator, the generation survives every trip,
// and only the newest letter of a call can be replayed.
func TestB28AReplayThatDiesAgainStaysDead(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken())}, func(t *testing.T, w *worldtest.World) {
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		for generation := range 2 {
			o := w.Outcome(m, 10*time.Second, generation)
			w.Drained(5 * time.Second)
			w.Replay(dedupe.LetterID(o.Call, generation), deadletter.ReplayOptions{})
		}
		o := w.Outcome(m, 10*time.Second, 2)
		w.Drained(5 * time.Second)
		time.Sleep(30 * time.Minute)
		p := w.Letters(deadletter.Filter{})
		if s.N() != 3 || o.Generation != 2 || p.Total != 1 || p.Letters[0].Generation != 2 || w.Messages("TOLLGATE_DLQ") != 3 {
			t.Errorf("%d executions, letters %+v", s.N(), p)
		}
		for generation := range 2 {
			id := dedupe.LetterID(o.Call, generation)
			if f := w.Refused(control.VerbReplay, control.ReplayQuery{ID: id}); f.Code != 409 || !strings.Contains(f.What, "replayed already") {
				t.Errorf("%s: %+v", id, f)
			}
			if l := w.Letter(id); l.State != schemas.LetterResolved || l.Generation != generation {
				t.Errorf("%s is %s", id, l.State)
			}
		}
		for i, in := range s.Calls {
			if in.Generation != i || in.Attempt != 1 || in.Key != s.Calls[0].Key {
				t.Errorf("execution %d: generation %d, attempt %d, key %s", i, in.Generation, in.Attempt, in.Key)
			}
		}
		w.Charged("r", 3, 0)
	})
}

// B30: a replay gets the call's original window from now; the run's own deadline
// stays, and where it has passed the refusal names it and the way out.
func TestB30AReplayOfAnExpiredCallGetsItsWindowAgain(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), worldtest.Busy(time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: 10 * time.Minute}
		w.Publish(m)
		first := w.Outcome(m, 10*time.Second)
		w.Stop()
		time.Sleep(70 * time.Minute)
		w.Start()
		w.Replay(worldtest.CallID(m), deadletter.ReplayOptions{})
		replayed := time.Now()
		o := w.Outcome(m, 10*time.Second, 1)
		if o.Status != schemas.Succeeded || s.N() != 3 || o.Timing.Deadline.Sub(replayed).Round(time.Second) != 10*time.Minute {
			t.Errorf("%s after %d executions, deadline in %s", o.Status, s.N(), o.Timing.Deadline.Sub(replayed))
		}
		l := w.Letter(dedupe.LetterID(o.Call, 0))
		if d := l.Deadline.Sub(first.Timing.Deadline).Abs(); d > time.Millisecond || l.State != schemas.LetterResolved {
			t.Errorf("the letter's deadline is off by %s, and it is %s", d, l.State)
		}
		if a := w.Audit("replay"); len(a) != 1 || a[0].By != "test" || !strings.Contains(a[0].Detail, "deadline="+o.Timing.Deadline.UTC().Format(time.RFC3339Nano)) {
			t.Errorf("audit %+v", a)
		}
	})
}

func TestB30AReplayOfAnExpiredRunIsRefusedUntilGranted(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		end := time.Now().Add(30 * time.Minute)
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: 10 * time.Minute, Header: map[string]string{schemas.HeaderRunDeadline: end.UTC().Format(time.RFC3339Nano)}}
		w.Publish(m)
		w.Outcome(m, 10*time.Second)
		w.Stop()
		time.Sleep(time.Hour)
		w.Start()
		f := w.Refused(control.VerbReplay, control.ReplayQuery{ID: worldtest.CallID(m)})
		if f.Code != 409 || !strings.Contains(f.What, "deadline") || !strings.Contains(f.What, end.UTC().Format(time.RFC3339)) || f.Try == "" {
			t.Errorf("%+v", f)
		}
		if p := w.Letters(deadletter.Filter{}); p.Total != 1 || s.N() != 1 {
			t.Errorf("after the refusal: %d letters, %d executions", p.Total, s.N())
		}
		w.Replay(worldtest.CallID(m), deadletter.ReplayOptions{Window: 5 * time.Minute, Grant: budget.Grant{Elapsed: time.Hour}, Why: "B30"})
		o := w.Outcome(m, 10*time.Second, 1)
		if left := time.Until(o.Timing.Deadline); o.Status != schemas.Succeeded || s.N() != 2 || left > 5*time.Minute || left < 4*time.Minute {
			t.Errorf("%s after %d executions, %s left", o.Status, s.N(), left)
		}
		run := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"})
		if g := run.Accounts["r"].Grants; len(g) != 1 || g[0].By != "test" || g[0].Why != "B30" {
			t.Errorf("grants %+v", g)
		}
	})
}

// B31: however many letters there are, and however old, all are counted, listed and
// shown; what an operator discards is put aside, not dropped.
func TestB31EveryLetterIsCountedAndListed(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken())}, func(t *testing.T, w *worldtest.World) {
		const all, old = 620, 60
		w.Again(func() { w.Config = worldtest.ReplaceOnce(t, w.Config, "ledger: {", "ledger: { retention: 2h,") })
		var middle time.Time
		for i := range all {
			if i == old {
				w.Until(time.Minute, "the old ones are dead", func() bool { return w.Messages("TOLLGATE_DLQ") == old })
				time.Sleep(time.Second)
				middle = time.Now()
				time.Sleep(time.Second)
			}
			w.Publish(worldtest.Msg{Lane: schemas.Jobs, Tool: "look.up", Run: "r" + strconv.Itoa(i%7), Key: strconv.Itoa(i), Deadline: time.Hour})
		}
		w.Until(time.Minute, "all are dead", func() bool { return w.Messages("TOLLGATE_DLQ") == all })
		w.Drained(10 * time.Second)
		oldest := pages(w, t, all)
		w.Letter(oldest.ID)

		w.Stop()
		time.Sleep(5 * time.Hour) // beyond the ledger's retention
		w.Start()
		time.Sleep(time.Minute)
		if again := pages(w, t, all); again.ID != oldest.ID {
			t.Errorf("after the retention the oldest is %s, not %s", again.ID, oldest.ID)
		}
		if l := w.Letter(oldest.ID); l.Arguments != "{}" || l.Outcome == nil {
			t.Errorf("the oldest is shown as %+v", l)
		}
		w.Replay(oldest.ID, deadletter.ReplayOptions{NewRun: "another", DryRun: true}) // its record is kept as long as it

		set := worldtest.Ask[control.LetterIDs](w, control.VerbLetterIDs, deadletter.Filter{Until: middle})
		if len(set.IDs) != old {
			t.Errorf("%d letters before the middle, want %d", len(set.IDs), old)
		}
		for _, id := range set.IDs {
			worldtest.Ask[control.Done](w, control.VerbDiscard, control.LetterQuery{ID: id, Why: "B31"})
		}
		for state, want := range map[string]int{"": all - old, string(schemas.LetterDiscarded): old, "all": all} {
			if p := w.Letters(deadletter.Filter{State: state}); p.Total != want {
				t.Errorf("state %q: %d letters, want %d", state, p.Total, want)
			}
		}
		if a := w.Audit("discard"); len(a) != old {
			t.Errorf("%d discards audited", len(a))
		}
	})
}

// pages reads the list page by page and returns the oldest letter.
func pages(w *worldtest.World, t *testing.T, want int) schemas.Letter {
	t.Helper()
	ids := map[string]bool{}
	var last schemas.Letter
	for f := (deadletter.Filter{Limit: 400}); ; {
		p := w.Letters(f)
		if p.Total != want {
			t.Errorf("total %d, want %d", p.Total, want)
		}
		for _, l := range p.Letters {
			ids[l.ID] = true
			last = l
		}
		if f.Before = p.Next; p.Next == 0 {
			break
		}
	}
	if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); len(ids) != want || st.Letters != want || !st.OldestLetter.Equal(last.DiedAt) {
		t.Errorf("%d letters on the pages, %d in the status, the oldest %s, want %d", len(ids), st.Letters, st.OldestLetter, want)
	}
	return last
}
