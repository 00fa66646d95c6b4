package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// free is a dependency that never stands in the way; it goes below the tools.
const free = "dependencies:\n  free: { breaker: off, quota: { ratio: 1, burst: 10000 } }\n"

// failsFirst fails its first n calls with the given wait and then succeeds.
func failsFirst(s *worldtest.Seen, n int, wait time.Duration) function.Func {
	return func(_ context.Context, in dispatcher.Invocation) (any, error) {
		if s.Add(in) <= n {
			return nil, function.Transient("BUSY", "busy", wait)
		}
		return "ok", nil
	}
}

// I12: a schedule that never fires, whatever became of it, is woken from the ledger.
func TestI12AnOverdueScheduleThatIsGoneIsWoken(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, threeWrites, map[string]function.Func{"pay": failsFirst(&s, 1, 10*time.Second)})
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Body: `{"n":  1}`, Deadline: time.Hour}
		w.Publish(m)
		time.Sleep(2 * time.Second)
		if n := w.Messages("TOLLGATE_RETRY", "tollgate.sched.>"); n != 1 {
			t.Fatalf("%d schedules armed", n)
		}
		w.Purge("TOLLGATE_RETRY", "tollgate.sched.>")
		o := w.Outcome(m, time.Minute)
		if gap := s.At[1].Sub(s.At[0]); o.Status != schemas.Succeeded || s.N() != 2 || gap < 10*time.Second || gap > 25*time.Second {
			t.Errorf("%s after %d executions, %s apart", o.Status, s.N(), gap)
		}
		if string(s.Calls[1].Arguments) != m.Body || s.Calls[1].Key != s.Calls[0].Key {
			t.Errorf("I7: the woken attempt differs: %+v", s.Calls[1])
		}
		w.Verify()
	})
}

// A message of a tool nobody serves is refused after the grace, not before; a call
// hears it, a job leaves a letter.
func TestAMessageOfAToolNobodyServesIsRefusedAfterTheGrace(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		call := worldtest.Msg{Tool: "no.such", Run: "r", Key: "c"}
		job := worldtest.Msg{Lane: schemas.Jobs, Tool: "no.such", Run: "r", Key: "j", Body: `{"job": 1}`}
		w.Publish(call)
		w.Publish(job)
		time.Sleep(4 * time.Second)
		if w.RefusalOf(call) != nil || len(w.LettersOf("")) != 0 {
			t.Error("refused before the grace was over")
		}
		time.Sleep(20 * time.Second)
		for _, m := range []worldtest.Msg{call, job} {
			if r := w.RefusalOf(m); !strings.Contains(string(r), schemas.CodeUnknownTool) {
				t.Errorf("%s: refusal %s", m.Key, r)
			}
			if w.Stored(m) != nil {
				t.Errorf("%s: a refusal must not be an outcome", m.Key)
			}
		}
		l := w.LettersOf("")
		if len(l) != 1 || l[0].Reason != schemas.ReasonRejected || l[0].Code != schemas.CodeUnknownTool || l[0].Key != "j" {
			t.Fatalf("letters %+v", l)
		}
		if d := worldtest.Ask[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: l[0].ID}); d.Arguments != job.Body {
			t.Errorf("the letter's body: %q", d.Arguments)
		}
		if n := w.Messages("TOLLGATE_CALLS", ">") + w.Messages("TOLLGATE_JOBS", ">"); n != 0 || s.N() != 0 {
			t.Errorf("%d messages left, %d executed", n, s.N())
		}
		w.Verify()
	})
}

// A tool that comes back within the grace serves what waited for it.
func TestAToolThatComesBackServesWhatWaited(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		m := worldtest.Msg{Tool: "look.new", Run: "r", Key: "k"}
		w.Publish(m)
		time.Sleep(3 * time.Second)
		w.Stop()
		w.Config += "  look.new: { function: ok, effect: read, policies: [quick] }\n"
		w.Start()
		if o := w.Outcome(m, 5*time.Second); o.Status != schemas.Succeeded || s.N() != 1 {
			t.Errorf("%s, %d executed", o.Status, s.N())
		}
	})
}

// I12: expired messages of a paused tool settle, what still has time stays.
func TestExpiredMessagesOfAPausedToolSettle(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		worldtest.Ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "look.up", Why: "test"})
		short := worldtest.Msg{Tool: "look.up", Run: "r", Key: "short", Deadline: 10 * time.Second}
		job := worldtest.Msg{Lane: schemas.Jobs, Tool: "look.up", Run: "r", Key: "job", Deadline: 10 * time.Second}
		long := worldtest.Msg{Tool: "look.up", Run: "r", Key: "long", Deadline: 55 * time.Second}
		for _, m := range []worldtest.Msg{short, job, long} {
			w.Publish(m)
		}
		if o := w.Outcome(short, 20*time.Second); len(o.Attempts) != 0 || o.Status == schemas.Succeeded {
			t.Errorf("short: %s %s", o.Status, o.Code())
		}
		if o := w.Outcome(job, 20*time.Second); o.Status != schemas.Exhausted || len(w.LettersOf("r")) == 0 {
			t.Errorf("job: %s, letters %+v", o.Status, w.LettersOf("r"))
		}
		if w.Stored(long) != nil || s.N() != 0 {
			t.Errorf("long: %+v, %d executed", w.Stored(long), s.N())
		}
		worldtest.Ask[control.ToolDetail](w, control.VerbToolResume, control.ToolQuery{Tool: "look.up"})
		if o := w.Outcome(long, 5*time.Second); o.Status != schemas.Succeeded || o.Budget.Attempts.Used != 1 || s.N() != 1 {
			t.Errorf("long: %s, charged %+v", o.Status, o.Budget.Attempts)
		}
		w.Verify()
	})
}

// A waiting call of a paused tool settles when its time is over, too.
func TestAnExpiredRetryOfAPausedToolSettles(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, threeWrites, map[string]function.Func{"pay": failsFirst(&s, 9, 2*time.Second)})
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: 15 * time.Second}
		w.Publish(m)
		time.Sleep(time.Second)
		worldtest.Ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "look.up"})
		if o := w.Outcome(m, 30*time.Second); o.Status == schemas.Succeeded || len(o.Attempts) != 1 || s.N() != 1 {
			t.Errorf("%s %s after %d executions", o.Status, o.Code(), s.N())
		}
		if n := w.Messages("TOLLGATE_RETRY", ">"); n != 0 {
			t.Errorf("%d messages left on the retry stream", n)
		}
		w.Verify()
	})
}

// I12, I14: a waiting call whose tool left the catalogue settles; an uncertain
// effect stays uncertain.
func TestAWaitingCallWhoseToolLeftTheCatalogueSettles(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ dispatcher.Invocation) (any, error) { <-ctx.Done(); return nil, ctx.Err() }
		busy := func(context.Context, dispatcher.Invocation) (any, error) {
			return nil, function.Transient("BUSY", "busy", 20*time.Second)
		}
		gone := `  gone.read: { function: busy, effect: read, policies: [slow] }
  gone.pay: { function: hang, effect: write, retry_safety: idempotent, policies: [slow] }
`
		w := worldtest.New(t, "  stays: { function: busy, effect: read, policies: [slow] }\n"+gone, map[string]function.Func{"busy": busy, "hang": hang})
		read := worldtest.Msg{Tool: "gone.read", Run: "r", Key: "1", Deadline: time.Hour}
		pay := worldtest.Msg{Tool: "gone.pay", Run: "r", Key: "2", Deadline: time.Hour}
		w.Publish(read)
		w.Publish(pay)
		time.Sleep(5 * time.Second)
		w.Stop()
		w.Config = worldtest.ReplaceOnce(t, w.Config, gone, "")
		w.Start()
		if o := w.Outcome(read, time.Minute); o.Status != schemas.Failed || o.Code() != schemas.CodeUnknownTool || len(o.Attempts) != 1 {
			t.Errorf("read: %s %s", o.Status, o.Code())
		}
		if o := w.Outcome(pay, 2*time.Hour); o.Status != schemas.UnknownOutcome || o.Code() != schemas.CodeUnknownTool {
			t.Errorf("pay: %s %s", o.Status, o.Code())
		}
		if n := len(w.LettersOf("r")); n != 2 {
			t.Errorf("%d letters", n)
		}
		if n := w.Messages("TOLLGATE_RETRY", ">"); n != 0 {
			t.Errorf("%d messages left on the retry stream", n)
		}
		w.Verify()
	})
}
