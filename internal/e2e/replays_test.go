package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/replays"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// dead makes n dead letters of a tool, a hundred in each run.
func dead(w *worldtest.World, tool string, n int) []worldtest.Msg {
	w.T.Helper()
	before := w.Messages("TOLLGATE_DLQ")
	var all []worldtest.Msg
	for i := range n {
		m := worldtest.Msg{Tool: tool, Run: "r" + strconv.Itoa(i/100), Key: tool + strconv.Itoa(i), Deadline: time.Hour}
		w.Publish(m)
		all = append(all, m)
	}
	w.Until(time.Minute, "every call is dead", func() bool { return w.Messages("TOLLGATE_DLQ") == before+n })
	w.Drained(10 * time.Second)
	return all
}

func create(w *worldtest.World, q replays.Query) *dedupe.Replay {
	w.T.Helper()
	return worldtest.Ask[*dedupe.Replay](w, control.VerbReplaysCreate, q)
}

func shown(w *worldtest.World, name string) *dedupe.Replay {
	w.T.Helper()
	b := worldtest.Ask[*dedupe.Replay](w, control.VerbReplayShow, control.ReplayName{Name: name})
	if b.Matched != b.Left+b.Tally.Replayed+b.SkippedCount() {
		w.T.Errorf("letters are lost from the count: %+v", b)
	}
	return b
}

func ended(w *worldtest.World, name string, within time.Duration) *dedupe.Replay {
	w.T.Helper()
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		b := shown(w, name)
		if (b.State.Terminal() || b.State == dedupe.ReplayStopped) && b.Tally.Open() == 0 {
			return b
		}
		if time.Now().After(end) {
			w.T.Fatalf("not ended within %s: %+v", within, b)
		}
	}
}

// once fails unless each call was executed just that often.
func once(w *worldtest.World, s *worldtest.Seen, all []worldtest.Msg, times int) {
	w.T.Helper()
	for _, m := range all {
		if n := s.Of(m); n != times {
			w.T.Errorf("%s was executed %d times, want %d", m.Key, n, times)
		}
	}
}

func share(f float64) *float64 { return &f }

// A bulk replay replays each letter of its frozen set exactly once, at its rate, pauses
// within a second, goes on, and counts what became of each.
func TestABulkReplayKeepsItsRateAndPauses(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		all := dead(w, "look.up", 300)
		began := time.Now()
		made := create(w, replays.Query{Rate: 20, ReplayOptions: deadletter.ReplayOptions{Why: "INC-1"}})
		later := worldtest.Msg{Tool: "look.up", Run: "later", Key: "later", Deadline: time.Hour}
		w.Publish(later) // it dies while the others are replayed, and is not one of them
		if made.Name != "r-1" || made.Matched != 300 || made.Left != 300 || made.By != "test" || made.Scope != "every active letter" {
			t.Errorf("made: %+v", made)
		}
		time.Sleep(time.Until(began.Add(5 * time.Second)))
		if n := shown(w, "r-1").Tally.Replayed; n < 90 || n > 100 {
			t.Errorf("20/s has replayed %d after 5 s", n)
		}
		worldtest.Ask[*dedupe.Replay](w, control.VerbReplayPause, control.ReplayName{Name: "r-1", Why: "lunch"})
		time.Sleep(time.Second)
		paused := shown(w, "r-1")
		time.Sleep(time.Minute)
		if b := shown(w, "r-1"); b.State != dedupe.ReplayPaused || b.Tally.Replayed != paused.Tally.Replayed || b.Tally.Succeeded != b.Tally.Replayed || b.Reason != "test: lunch" {
			t.Errorf("a minute after the pause: %+v, then %+v", paused, b)
		}
		if p := w.Refused(control.VerbReplayPause, control.ReplayName{Name: "r-1"}); p.Code != 409 {
			t.Errorf("paused twice: %+v", p)
		}
		went := time.Now()
		worldtest.Ask[*dedupe.Replay](w, control.VerbReplayResume, control.ReplayName{Name: "r-1"})
		b := ended(w, "r-1", time.Minute)
		rest := float64(300-paused.Tally.Replayed) / time.Since(went).Seconds()
		if b.State != dedupe.ReplayDone || b.Tally.Succeeded != 300 || rest < 18 || rest > 22 {
			t.Errorf("%+v, the rest at %.1f/s", b, rest)
		}
		once(w, &s, all, 2)
		once(w, &s, []worldtest.Msg{later}, 1)
		if p := w.Letters(deadletter.Filter{}); p.Total != 1 {
			t.Errorf("%d letters are active", p.Total)
		}
		if p := w.Refused(control.VerbReplaysCreate, replays.Query{Name: "r-1", ReplayOptions: deadletter.ReplayOptions{Why: "again"}}); p.Code != 409 {
			t.Errorf("made under a name that is taken: %+v", p)
		}
		if p := w.Refused(control.VerbReplaysCreate, replays.Query{Filter: deadletter.Filter{Tool: "no.such"}}); p.Code != 404 {
			t.Errorf("made of nothing: %+v", p)
		}
		if a := w.Audit("replays_create"); len(a) != 3 || a[1].Allowed || a[1].Target != "replay r-1" || a[1].Why != "again" || a[2].Allowed || a[2].Detail == "" {
			t.Errorf("what was refused: %+v", a)
		}
		for action, n := range map[string]int{"replays_create": 3, "replays_pause": 2, "replays_resume": 1, "replays_finish": 1, "replay": 300} {
			if a := w.Audit(action); len(a) != n {
				t.Errorf("%s: %d audit entries, want %d", action, len(a), n)
			}
		}
		if a := w.Audit("replays_pause"); a[0].Why != "lunch" || !a[0].Allowed || a[1].Allowed {
			t.Errorf("%+v", a)
		}
		if p := w.Refused(control.VerbReplayCancel, control.ReplayName{Name: "r-1"}); p.Code != 409 {
			t.Errorf("cancelled when it was done: %+v", p)
		}
		if p := w.Refused(control.VerbReplayShow, control.ReplayName{Name: "nobody"}); p.Code != 404 {
			t.Errorf("%+v", p)
		}
		w.Verify()
	})
}

// Killed and restarted in its middle, again and again, it replays each letter once and
// goes on by itself.
func TestABulkReplaySurvivesItsDispatcher(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		all := dead(w, "look.up", 200)
		create(w, replays.Query{Name: "crm-is-back", Rate: 20})
		for i := range 3 {
			time.Sleep(1500 * time.Millisecond)
			if i == 1 {
				w.Stop()
			} else {
				w.Crash()
			}
			time.Sleep(time.Second)
			w.Start()
		}
		b := ended(w, "crm-is-back", time.Minute)
		if b.State != dedupe.ReplayDone || b.Tally.Succeeded != 200 || b.Tally.DiedAgain != 0 || b.SkippedCount() != 0 {
			t.Errorf("%+v", b)
		}
		once(w, &s, all, 2)
		if a := w.Audit("replay"); len(a) != 200 || !strings.HasSuffix(a[0].Detail, "replay=crm-is-back") {
			t.Errorf("%d letters audited as replayed", len(a))
		}
		w.Verify()
	})
}

// A commit that is reported as failed, made or not, costs no letter and repeats none:
// wherever it comes.
func TestABulkReplayAndEveryCommitThatFails(t *testing.T) {
	var s worldtest.Seen
	tools := letterTool + strings.Replace(letterTool, "look.up", "look.again", 1)
	worldtest.Bubble(t, tools, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		var faults atomic.Int32 // 1: refuse every third commit; 2: make it, and say that it failed
		var n atomic.Int32
		w.Again(func() {
			w.Commit = func(commit func() error) error {
				switch f, n := faults.Load(), n.Add(1); {
				case f == 0 || n%3 > 0:
					return commit()
				case f == 2:
					return errors.Join(commit(), errors.New("said to have failed"))
				}
				return errors.New("refused")
			}
		})
		for fault, tool := range []string{"look.up", "look.again"} {
			all := dead(w, tool, 40)
			name := create(w, replays.Query{Rate: 40, Filter: deadletter.Filter{Tool: tool}}).Name
			faults.Store(int32(fault + 1))
			time.Sleep(5 * time.Second)
			faults.Store(0)
			b := ended(w, name, time.Minute)
			if b.State != dedupe.ReplayDone || b.Tally.Succeeded != 40 || b.SkippedCount() != 0 {
				t.Errorf("fault %d: %+v", fault+1, b)
			}
			once(w, &s, all, 2)
		}
		if n.Load() < 60 {
			t.Errorf("only %d commits", n.Load())
		}
	})
}

// Two bulk replays of the same letters, and an operator between them: each letter once,
// and everybody is told what the others did.
func TestOverlappingBulkReplaysReplayALetterOnce(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		all := dead(w, "look.up", 120)
		first := create(w, replays.Query{Rate: 30})
		second := create(w, replays.Query{Rate: 50})
		w.Replay(worldtest.CallID(all[119]), deadletter.ReplayOptions{})
		w.Refused(control.VerbReplay, control.ReplayQuery{ID: worldtest.CallID(all[119]) + ".0"})
		a, b := ended(w, first.Name, time.Minute), ended(w, second.Name, time.Minute)
		if a.Tally.Replayed+b.Tally.Replayed != 119 || a.Tally.Replayed == 0 || b.Tally.Replayed == 0 {
			t.Errorf("%+v\n%+v", a.Tally, b.Tally)
		}
		if n := a.Skipped["it was replayed already (generation 1 exists)"]; n != a.SkippedCount() || a.SkippedCount()+b.SkippedCount() != first.Matched+second.Matched-119 {
			t.Errorf("skipped %v and %v", a.Skipped, b.Skipped)
		}
		refused := slices.DeleteFunc(w.Audit("replay"), func(a dedupe.Audit) bool { return a.Allowed })
		if len(refused) != 1 || refused[0].By != "test" || !strings.Contains(refused[0].Detail, "replayed already") {
			t.Errorf("refused replays are audited as %+v", refused)
		}
		once(w, &s, all, 2)
		w.Verify()
	})
}

// The canary goes first and alone; the others only when it is well.
func TestACanaryThatDiesStopsABulkReplay(t *testing.T) {
	var s worldtest.Seen
	var well atomic.Bool
	tool := func(_ context.Context, in dispatcher.Invocation) (any, error) {
		if s.Add(in); well.Load() {
			return "ok", nil
		}
		return nil, worldtest.Broken()
	}
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": tool}, func(t *testing.T, w *worldtest.World) {
		dead(w, "look.up", 60)
		first := create(w, replays.Query{Rate: 100, Canary: 5})
		b := ended(w, first.Name, time.Minute)
		if b.State != dedupe.ReplayStopped || b.Tally.Replayed != 5 || b.Tally.DiedAgain != 5 || b.Left != 55 || !strings.Contains(b.Reason, "5 of the canary's 5") {
			t.Errorf("%+v", b)
		}
		if a := w.Audit("replays_stop"); len(a) != 1 || a[0].By != "dispatcher" || a[0].Why != b.Reason {
			t.Errorf("%+v", a)
		}
		bounced := w.Letters(deadletter.Filter{Replay: first.Name})
		if bounced.Total != 5 || bounced.Letters[0].Generation != 1 || bounced.Letters[0].Replay != first.Name {
			t.Errorf("bounced: %+v", bounced)
		}
		worldtest.Ask[*dedupe.Replay](w, control.VerbReplayCancel, control.ReplayName{Name: first.Name, Why: "not well yet"})
		well.Store(true)
		second := create(w, replays.Query{Rate: 100, Canary: 5})
		if second.Left != 60 { // those that bounced are letters again
			t.Errorf("%+v", second)
		}
		b = ended(w, second.Name, time.Minute)
		if b.State != dedupe.ReplayDone || b.Tally.Succeeded != 60 || !b.CanaryPassed || len(w.Audit("replays_canary")) != 1 {
			t.Errorf("%+v", b)
		}
		if n := s.N(); n != 60+5+60 {
			t.Errorf("%d executions", n)
		}
	})
}

// Too many that die again stop it; an operator who knows better lets it go on.
func TestABulkReplayStopsWhenTooManyDieAgain(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken())}, func(t *testing.T, w *worldtest.World) {
		dead(w, "look.up", 100)
		name := create(w, replays.Query{Rate: 10, StopAbove: share(0.5), InFlight: 3}).Name
		b := ended(w, name, time.Minute)
		if b.State != dedupe.ReplayStopped || b.Tally.DiedAgain < 20 || b.Tally.DiedAgain > 23 {
			t.Errorf("%+v", b)
		}
		w.Stop()
		w.Start() // it stays stopped
		time.Sleep(time.Minute)
		if again := shown(w, name); again.Tally != b.Tally || again.State != dedupe.ReplayStopped {
			t.Errorf("after a restart: %+v", again)
		}
		worldtest.Ask[*dedupe.Replay](w, control.VerbReplayResume, control.ReplayName{Name: name})
		if again := ended(w, name, time.Minute); again.State != dedupe.ReplayStopped || again.Tally.DiedAgain < b.Tally.DiedAgain+20 {
			t.Errorf("after the resume: %+v", again)
		}
		worldtest.Ask[*dedupe.Replay](w, control.VerbReplayCancel, control.ReplayName{Name: name})
		time.Sleep(time.Minute)
		if last := shown(w, name); last.State != dedupe.ReplayCancelled || last.Ended.IsZero() || last.Left == 0 {
			t.Errorf("cancelled: %+v", last)
		}
	})
}

// A slow tool is not flooded: only so many letters are under way at once.
func TestABulkReplayKeepsItsBoundInFlight(t *testing.T) {
	var s worldtest.Seen
	var now, most atomic.Int32
	tool := func(_ context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		if in.Generation == 0 {
			return nil, worldtest.Broken()
		}
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(2 * time.Second)
		now.Add(-1)
		return "ok", nil
	}
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": tool}, func(t *testing.T, w *worldtest.World) {
		dead(w, "look.up", 40)
		name := create(w, replays.Query{Rate: 100, InFlight: 4}).Name
		if b := ended(w, name, 2*time.Minute); b.Tally.Succeeded != 40 || most.Load() != 4 {
			t.Errorf("%+v, %d at once", b, most.Load())
		}
	})
}

// What cannot be replayed is left out and says why, before and in its turn.
func TestABulkReplaySaysWhatItLeavesOut(t *testing.T) {
	var s worldtest.Seen
	tools := letterTool + "  do.write: { function: lost, effect: write, concurrency: 4, policies: [quick] }\n"
	lost := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	worldtest.Bubble(t, tools, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil), "lost": lost}, func(t *testing.T, w *worldtest.World) {
		dead(w, "look.up", 10)
		w.Publish(worldtest.Msg{Tool: "do.write", Run: "w", Key: "w"})
		w.Publish(worldtest.Msg{Tool: "look.up", Run: "bad", Key: "bad", Header: map[string]string{schemas.HeaderDeadline: "tomorrow"}})
		w.Until(time.Minute, "all are dead", func() bool { return w.Messages("TOLLGATE_DLQ") == 12 })
		w.Drained(10 * time.Second)
		plan := worldtest.Ask[replays.Plan](w, control.VerbReplaysPlan, replays.Query{})
		if plan.Matched != 12 || plan.Would != 10 || plan.Skipped["nobody knows whether its effect happened"] != 1 || plan.Skipped["the message was refused and is no call"] != 1 || plan.Uncertain != 0 {
			t.Errorf("%+v", plan)
		}
		if p := worldtest.Ask[replays.Plan](w, control.VerbReplaysPlan, replays.Query{ReplayOptions: deadletter.ReplayOptions{IncludeUnknown: true}}); p.Would != 11 || p.Uncertain != 1 {
			t.Errorf("with the unknown: %+v", p)
		}
		q := replays.Query{Rate: 1, AtMost: plan.Would, Filter: deadletter.Filter{Before: plan.Before}}
		letters := worldtest.Ask[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{Tool: "look.up"}).Letters
		last := letters[slices.IndexFunc(letters, func(l schemas.Letter) bool { return l.Reason != schemas.ReasonMalformed })].ID // the newest: its turn comes last
		name := create(w, q).Name
		worldtest.Ask[control.Done](w, control.VerbDiscard, control.LetterQuery{ID: last, Why: "test"})
		b := ended(w, name, time.Minute)
		if b.Tally.Succeeded != 9 || b.Skipped["it is discarded"] != 1 || b.SkippedCount() != 3 || b.Matched != 12 {
			t.Errorf("%+v", b)
		}
		items := worldtest.Ask[replays.Items](w, control.VerbReplayItems, control.ReplayName{Name: name}).Items
		for _, i := range items {
			if left := i.Letter == last; left != (i.State == dedupe.ItemSkipped) || left != (i.Why == "it is discarded") || left == (i.Status == schemas.Succeeded) {
				t.Errorf("%+v", i)
			}
		}
		if len(items) != 10 {
			t.Errorf("%d items", len(items))
		}
		for what, code := range map[string]int{
			`{"filter":{"tool":"nobody"}}`: 404, `{"ids":["00000000000000000000000000.0"]}`: 404, `{"rate":-1}`: 400, `{"name":"` + name + `","filter":{"state":"all"}}`: 404,
		} {
			if p := w.Refused(control.VerbReplaysCreate, rawJSON(what)); p.Code != code {
				t.Errorf("%s: %+v", what, p)
			}
		}
	})
}

type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// While the server is away nothing is lost and nothing is guessed.
func TestABulkReplayWaitsForTheServer(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		all := dead(w, "look.up", 100)
		name := create(w, replays.Query{Rate: 20}).Name
		time.Sleep(2 * time.Second)
		w.Node.Restart(t, 5*time.Second)
		time.Sleep(5 * time.Second) // until everybody is connected again
		b := ended(w, name, 2*time.Minute)
		if b.State != dedupe.ReplayDone || b.Tally.Succeeded != 100 || b.Trouble != "" {
			t.Errorf("%+v", b)
		}
		once(w, &s, all, 2)
		w.Verify()
	})
}

// What was over for as long as the ledger remembers is forgotten, but for its audit.
func TestOldBulkReplaysAreForgotten(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() { w.Config = worldtest.ReplaceOnce(t, w.Config, "ledger: {", "ledger: { retention: 2h,") })
		dead(w, "look.up", 5)
		ended(w, create(w, replays.Query{}).Name, time.Minute)
		time.Sleep(10 * time.Minute)
		if p := worldtest.Ask[control.ReplaysPage](w, control.VerbReplaysList, control.Empty{}); len(p.Replays) != 1 {
			t.Errorf("while it is remembered: %+v", p)
		}
		time.Sleep(150 * time.Minute)
		if p := worldtest.Ask[control.ReplaysPage](w, control.VerbReplaysList, control.Empty{}); len(p.Replays) != 0 {
			t.Errorf("after it: %+v", p)
		}
		if a := w.Audit("replays_finish"); len(a) != 1 || a[0].Target != "replay r-1" || !strings.Contains(a[0].Detail, fmt.Sprintf("succeeded %d", 5)) {
			t.Errorf("%+v", a)
		}
	})
}

// The rate allows the next letter while the counters of the last are being stored: the
// replay goes on then, and does not wait for something else to happen. A kill on a busy
// machine found one that slept for an hour. What the crash had in hand comes again after 30 s.
func TestABulkReplayGoesOnAfterEachCrash(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		dead(w, "look.up", 120)
		w.Again(func() {
			w.Commit = func(commit func() error) error {
				defer time.Sleep(10 * time.Millisecond) // a slow disk
				return commit()
			}
		})
		create(w, replays.Query{Rate: 150, InFlight: 1, ReplayOptions: deadletter.ReplayOptions{Why: "INC-1"}})
		for n := range 8 {
			before := shown(w, "r-1").Tally.Replayed
			w.Until(50*time.Second, fmt.Sprintf("it goes on after crash %d, from %d", n, before), func() bool { return shown(w, "r-1").Tally.Replayed > before })
			time.Sleep(time.Duration(n) * 17 * time.Millisecond)
			w.Crash()
			w.Start()
		}
	})
}
