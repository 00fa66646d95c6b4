package e2e

import (
	"context"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

func cancelCalls(w *worldtest.World, q dispatcher.CancelRequest) dispatcher.CancelReport {
	w.T.Helper()
	rep, err := w.Ctl.Cancel(context.Background(), "default", q)
	if err != nil {
		w.T.Fatal(err)
	}
	return rep
}

const cancelTools = `  look.busy: { function: busy, effect: read, concurrency: 2, policies: [slow] }
  look.long: { function: long, effect: read, concurrency: 1, policies: [slow] }
  pay.long: { function: long, effect: write, concurrency: 1, policies: [slow] }
  pay.late: { function: late, effect: write, concurrency: 1, policies: [slow] }
  look.up: { function: ok, effect: read, policies: [slow] }
`

// cancelWorld has tools that fail with a stated wait, that run until they are told
// to stop, and that finish although they were told.
func cancelWorld(t *testing.T) (*worldtest.World, map[string]*worldtest.Seen) {
	by := map[string]*worldtest.Seen{"look.busy": {}, "look.long": {}, "pay.long": {}, "pay.late": {}, "look.up": {}}
	return worldtest.New(t, cancelTools, map[string]function.Func{
		"busy": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			by[in.Tool].Add(in)
			return nil, function.Transient("BUSY", "busy", 5*time.Second)
		},
		"long": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			by[in.Tool].Add(in)
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"late": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			by[in.Tool].Add(in)
			<-ctx.Done()
			return "done all the same", nil
		},
		"ok": func(_ context.Context, in dispatcher.Invocation) (any, error) { by[in.Tool].Add(in); return "ok", nil },
	}), by
}

// B74: a run is cancelled while calls of it wait, run and queue. Nothing of it
// starts any more; what ran is recorded as it ended; other runs go on.
func TestB74ACancelledRunExecutesNothingMore(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, by := cancelWorld(t)
		waits := worldtest.Msg{Tool: "look.busy", Run: "r/child", Key: "waits", Deadline: time.Hour}
		runs := worldtest.Msg{Tool: "look.long", Run: "r", Key: "runs", Deadline: time.Hour}
		queued := worldtest.Msg{Tool: "look.long", Run: "r", Key: "queued", Deadline: time.Hour}
		pays := worldtest.Msg{Tool: "pay.long", Run: "r", Key: "pays", Deadline: time.Hour}
		late := worldtest.Msg{Tool: "pay.late", Run: "r", Key: "late", Deadline: time.Hour}
		other := worldtest.Msg{Tool: "look.busy", Run: "other", Key: "k", Deadline: time.Hour}
		for _, m := range []worldtest.Msg{waits, runs, pays, late, other} {
			w.Publish(m)
		}
		time.Sleep(500 * time.Millisecond)
		w.Publish(queued)
		time.Sleep(500 * time.Millisecond)
		rep := cancelCalls(w, dispatcher.CancelRequest{Run: "r", Reason: "user left"})
		if rep != (dispatcher.CancelReport{Cancelled: 1, Running: 3}) {
			t.Errorf("report %+v", rep)
		}
		want := map[string]struct {
			m        worldtest.Msg
			status   schemas.Status
			attempts int
		}{
			"waits":  {waits, schemas.Cancelled, 1},
			"runs":   {runs, schemas.Cancelled, 1},
			"queued": {queued, schemas.Cancelled, 0},
			"pays":   {pays, schemas.UnknownOutcome, 1},
			"late":   {late, schemas.Succeeded, 1},
		}
		for name, c := range want {
			o := w.Outcome(c.m, 2*time.Second)
			if o.Status != c.status || len(o.Attempts) != c.attempts {
				t.Errorf("%s: %s %s, attempts %+v", name, o.Status, o.Code(), o.Attempts)
			}
			if name == "runs" && o.Attempts[0].Code != schemas.CodeCancelled {
				t.Errorf("the cause of the interruption: %+v", o.Attempts[0])
			}
		}
		time.Sleep(30 * time.Second)
		for tool, n := range map[string]int{"look.long": 1, "pay.long": 1, "pay.late": 1} {
			if got := by[tool].N(); got != n {
				t.Errorf("%s executed %d times, want %d", tool, got, n)
			}
		}
		if o := w.Outcome(other, time.Minute); o.Status != schemas.Exhausted || len(o.Attempts) != 4 {
			t.Errorf("the other run: %s %s", o.Status, o.Code())
		}
		// what comes later is cancelled, too, at any path below
		for _, run := range []string{"r", "r/child", "r/new"} {
			if o := w.Do(worldtest.Msg{Tool: "look.up", Run: run, Key: "later"}); o.Status != schemas.Cancelled || o.ServiceCode() != 410 {
				t.Errorf("%s: %s", run, o.Status)
			}
		}
		if n := by["look.up"].N(); n != 0 {
			t.Errorf("%d executed after the cancel", n)
		}
		// no replay of a cancelled run without a new payer
		l := w.LettersOf("r")
		if len(l) != 1 || l[0].Reason != schemas.ReasonUnknownOutcome {
			t.Fatalf("letters %+v", l)
		}
		p := w.Refused(control.VerbReplay, control.ReplayQuery{ID: l[0].ID, ReplayOptions: deadletter.ReplayOptions{IncludeUnknown: true}})
		if p.Code != 409 || p.Try != "--new-run" {
			t.Errorf("replay of a cancelled run: %+v", p)
		}
		w.Verify()
	})
}

// A run nobody knows yet is remembered as cancelled, across a restart; a child path
// is cancelled without its parent.
func TestACancelledRunIsRememberedBeforeItsFirstCall(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, by := cancelWorld(t)
		if rep := cancelCalls(w, dispatcher.CancelRequest{Run: "r/child", Reason: "too early"}); rep != (dispatcher.CancelReport{Unknown: 1}) {
			t.Errorf("report %+v", rep)
		}
		w.Stop()
		w.Start()
		for run, want := range map[string]schemas.Status{"r/child": schemas.Cancelled, "r/child/grand": schemas.Cancelled, "r": schemas.Succeeded, "r/sibling": schemas.Succeeded} {
			m := worldtest.Msg{Tool: "look.up", Run: run, Key: run}
			w.Publish(m)
			if o := w.Outcome(m, 5*time.Second); o.Status != want {
				t.Errorf("%s: %s %s", run, o.Status, o.Code())
			}
		}
		if n := by["look.up"].N(); n != 2 {
			t.Errorf("%d executed", n)
		}
		if n, _ := w.Account("r"); n != 2 {
			t.Errorf("charged %d", n)
		}
		w.Verify()
	})
}

// One call is cancelled: waiting, running, unknown, settled; the rest of its run
// goes on, and another tenant's word does not count.
func TestACallIsCancelledAlone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, by := cancelWorld(t)
		waits := worldtest.Msg{Tool: "look.busy", Run: "r", Key: "waits", Deadline: time.Hour}
		runs := worldtest.Msg{Tool: "look.long", Run: "r", Key: "runs", Deadline: time.Hour}
		stays := worldtest.Msg{Tool: "look.busy", Run: "r", Key: "stays", Deadline: time.Hour}
		for _, m := range []worldtest.Msg{waits, runs, stays} {
			w.Publish(m)
		}
		time.Sleep(time.Second)
		foreign, err := w.Ctl.Cancel(context.Background(), "stranger", dispatcher.CancelRequest{Call: worldtest.CallID(waits)})
		if err != nil || foreign.Unknown != 1 || w.Stored(waits) != nil {
			t.Errorf("another tenant: %+v %v", foreign, err)
		}
		for call, want := range map[string]dispatcher.CancelReport{
			worldtest.CallID(waits): {Cancelled: 1}, worldtest.CallID(runs): {Running: 1}, "nosuchcall": {Unknown: 1},
		} {
			if rep := cancelCalls(w, dispatcher.CancelRequest{Call: call, Reason: "test"}); rep != want {
				t.Errorf("%s: %+v, want %+v", call, rep, want)
			}
		}
		for _, m := range []worldtest.Msg{waits, runs} {
			if o := w.Outcome(m, 2*time.Second); o.Status != schemas.Cancelled {
				t.Errorf("%s: %s %s", m.Key, o.Status, o.Code())
			}
		}
		if rep := cancelCalls(w, dispatcher.CancelRequest{Call: worldtest.CallID(waits)}); rep != (dispatcher.CancelReport{}) {
			t.Errorf("a settled call: %+v", rep)
		}
		if o := w.Outcome(stays, time.Minute); o.Status != schemas.Exhausted || len(o.Attempts) != 4 {
			t.Errorf("the other call: %s %s", o.Status, o.Code())
		}
		time.Sleep(20 * time.Second)
		if n := by["look.busy"].N() + by["look.long"].N(); n != 6 {
			t.Errorf("%d executed, want 1 + 4 and 1", n)
		}
		w.Verify()
	})
}

// A cancelled call's retry does not come back, whatever is still on the streams.
func TestACancelledWaitingCallIsNotWokenByItsSchedule(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, by := cancelWorld(t)
		m := worldtest.Msg{Tool: "look.busy", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		time.Sleep(time.Second)
		cancelCalls(w, dispatcher.CancelRequest{Run: "r"})
		time.Sleep(time.Minute)
		if o := w.Stored(m); o == nil || o.Status != schemas.Cancelled || by["look.busy"].N() != 1 {
			t.Errorf("%+v, %d executed", o, by["look.busy"].N())
		}
		if n := w.Messages("TOLLGATE_RETRY", ">"); n != 0 {
			t.Errorf("%d messages left on the retry stream", n)
		}
	})
}
