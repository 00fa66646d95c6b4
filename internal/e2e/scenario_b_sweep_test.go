package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// free is a dependency that never stands in the way; it goes below the tools.
const free = "dependencies:\n  free: { breaker: off, quota: { ratio: 1, burst: 10000 } }\n"

// onStream returns how many messages match a subject in a stream.
func (w *world) onStream(stream, subject string) int {
	w.t.Helper()
	st, err := w.js.Stream(context.Background(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	info, err := st.Info(context.Background(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, c := range info.State.Subjects {
		n += int(c)
	}
	return n
}

func (w *world) purge(stream, subject string) {
	w.t.Helper()
	st, err := w.js.Stream(context.Background(), stream)
	if err == nil {
		err = st.Purge(context.Background(), jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// lettersOf lists the dead letters of a run; "" is every run.
func (w *world) lettersOf(run string) []schemas.Letter {
	w.t.Helper()
	return ask[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{Run: run}).Letters
}

// refusalOf returns what the refused subject of a call holds, or nil.
func (w *world) refusalOf(m msg) []byte {
	w.t.Helper()
	st, err := w.js.Stream(context.Background(), "TOLLGATE_RESULTS")
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := st.GetLastMsgForSubject(context.Background(), "tollgate.results.default."+schemas.Root(m.run)+"."+callID(m)+".refused")
	if err != nil {
		return nil
	}
	return raw.Data
}

// failsFirst fails its first n calls with the given wait and then succeeds.
func failsFirst(s *seen, n int, wait time.Duration) function.Func {
	return func(_ context.Context, in dispatcher.Invocation) (any, error) {
		if s.add(in) <= n {
			return nil, function.Transient("BUSY", "busy", wait)
		}
		return "ok", nil
	}
}

// I12: a schedule that never fires, whatever became of it, is woken from the ledger.
func TestI12AnOverdueScheduleThatIsGoneIsWoken(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		w := newWorld(t, threeWrites, map[string]function.Func{"pay": failsFirst(&s, 1, 10*time.Second)})
		m := msg{tool: "look.up", run: "r", key: "k", body: `{"n":  1}`, deadline: time.Hour}
		w.publish(m)
		time.Sleep(2 * time.Second)
		if n := w.onStream("TOLLGATE_RETRY", "tollgate.sched.>"); n != 1 {
			t.Fatalf("%d schedules armed", n)
		}
		w.purge("TOLLGATE_RETRY", "tollgate.sched.>")
		o := w.outcome(m, time.Minute)
		if gap := s.at[1].Sub(s.at[0]); o.Status != schemas.Succeeded || s.n() != 2 || gap < 10*time.Second || gap > 25*time.Second {
			t.Errorf("%s after %d executions, %s apart", o.Status, s.n(), gap)
		}
		if string(s.calls[1].Arguments) != m.body || s.calls[1].Key != s.calls[0].Key {
			t.Errorf("I7: the woken attempt differs: %+v", s.calls[1])
		}
		w.verify()
	})
}

// A message of a tool nobody serves is refused after the grace, not before; a call
// hears it, a job leaves a letter.
func TestAMessageOfAToolNobodyServesIsRefusedAfterTheGrace(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		call := msg{tool: "no.such", run: "r", key: "c"}
		job := msg{lane: schemas.Jobs, tool: "no.such", run: "r", key: "j", body: `{"job": 1}`}
		w.publish(call)
		w.publish(job)
		time.Sleep(4 * time.Second)
		if w.refusalOf(call) != nil || len(w.lettersOf("")) != 0 {
			t.Error("refused before the grace was over")
		}
		time.Sleep(20 * time.Second)
		for _, m := range []msg{call, job} {
			if r := w.refusalOf(m); !strings.Contains(string(r), schemas.CodeUnknownTool) {
				t.Errorf("%s: refusal %s", m.key, r)
			}
			if w.stored(m) != nil {
				t.Errorf("%s: a refusal must not be an outcome", m.key)
			}
		}
		l := w.lettersOf("")
		if len(l) != 1 || l[0].Reason != schemas.ReasonRejected || l[0].Code != schemas.CodeUnknownTool || l[0].Key != "j" {
			t.Fatalf("letters %+v", l)
		}
		if d := ask[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: l[0].ID}); d.Arguments != job.body {
			t.Errorf("the letter's body: %q", d.Arguments)
		}
		if n := w.onStream("TOLLGATE_CALLS", ">") + w.onStream("TOLLGATE_JOBS", ">"); n != 0 || s.n() != 0 {
			t.Errorf("%d messages left, %d executed", n, s.n())
		}
		w.verify()
	})
}

// A tool that comes back within the grace serves what waited for it.
func TestAToolThatComesBackServesWhatWaited(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		m := msg{tool: "look.new", run: "r", key: "k"}
		w.publish(m)
		time.Sleep(3 * time.Second)
		w.stop()
		w.conf += "  look.new: { function: ok, effect: read, policies: [quick] }\n"
		w.start()
		if o := w.outcome(m, 5*time.Second); o.Status != schemas.Succeeded || s.n() != 1 {
			t.Errorf("%s, %d executed", o.Status, s.n())
		}
	})
}

// I12: expired messages of a paused tool settle, what still has time stays.
func TestExpiredMessagesOfAPausedToolSettle(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "look.up", Why: "test"})
		short := msg{tool: "look.up", run: "r", key: "short", deadline: 10 * time.Second}
		job := msg{lane: schemas.Jobs, tool: "look.up", run: "r", key: "job", deadline: 10 * time.Second}
		long := msg{tool: "look.up", run: "r", key: "long", deadline: 55 * time.Second}
		for _, m := range []msg{short, job, long} {
			w.publish(m)
		}
		if o := w.outcome(short, 20*time.Second); len(o.Attempts) != 0 || o.Status == schemas.Succeeded {
			t.Errorf("short: %s %s", o.Status, o.Code())
		}
		if o := w.outcome(job, 20*time.Second); o.Status != schemas.Exhausted || len(w.lettersOf("r")) == 0 {
			t.Errorf("job: %s, letters %+v", o.Status, w.lettersOf("r"))
		}
		if w.stored(long) != nil || s.n() != 0 {
			t.Errorf("long: %+v, %d executed", w.stored(long), s.n())
		}
		ask[control.ToolDetail](w, control.VerbToolResume, control.ToolQuery{Tool: "look.up"})
		if o := w.outcome(long, 5*time.Second); o.Status != schemas.Succeeded || o.Budget.Attempts.Used != 1 || s.n() != 1 {
			t.Errorf("long: %s, charged %+v", o.Status, o.Budget.Attempts)
		}
		w.verify()
	})
}

// A waiting call of a paused tool settles when its time is over, too.
func TestAnExpiredRetryOfAPausedToolSettles(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		w := newWorld(t, threeWrites, map[string]function.Func{"pay": failsFirst(&s, 9, 2*time.Second)})
		m := msg{tool: "look.up", run: "r", key: "k", deadline: 15 * time.Second}
		w.publish(m)
		time.Sleep(time.Second)
		ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "look.up"})
		if o := w.outcome(m, 30*time.Second); o.Status == schemas.Succeeded || len(o.Attempts) != 1 || s.n() != 1 {
			t.Errorf("%s %s after %d executions", o.Status, o.Code(), s.n())
		}
		if n := w.onStream("TOLLGATE_RETRY", ">"); n != 0 {
			t.Errorf("%d messages left on the retry stream", n)
		}
		w.verify()
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
		w := newWorld(t, "  stays: { function: busy, effect: read, policies: [slow] }\n"+gone, map[string]function.Func{"busy": busy, "hang": hang})
		read := msg{tool: "gone.read", run: "r", key: "1", deadline: time.Hour}
		pay := msg{tool: "gone.pay", run: "r", key: "2", deadline: time.Hour}
		w.publish(read)
		w.publish(pay)
		time.Sleep(5 * time.Second)
		w.stop()
		w.conf = replaceOnce(t, w.conf, gone, "")
		w.start()
		if o := w.outcome(read, time.Minute); o.Status != schemas.Failed || o.Code() != schemas.CodeUnknownTool || len(o.Attempts) != 1 {
			t.Errorf("read: %s %s", o.Status, o.Code())
		}
		if o := w.outcome(pay, 2*time.Hour); o.Status != schemas.UnknownOutcome || o.Code() != schemas.CodeUnknownTool {
			t.Errorf("pay: %s %s", o.Status, o.Code())
		}
		if n := len(w.lettersOf("r")); n != 2 {
			t.Errorf("%d letters", n)
		}
		if n := w.onStream("TOLLGATE_RETRY", ">"); n != 0 {
			t.Errorf("%d messages left on the retry stream", n)
		}
		w.verify()
	})
}
