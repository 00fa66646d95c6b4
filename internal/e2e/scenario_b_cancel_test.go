package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

func (w *world) cancel(q dispatcher.CancelRequest) dispatcher.CancelReport {
	w.t.Helper()
	rep, err := w.ctl.Cancel(context.Background(), "default", q)
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

// problem asks for something that is refused and returns how.
func (w *world) problem(verb string, q any) control.Problem {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out any
	var f *control.Failure
	if err := w.ctl.Ask(ctx, verb, q, &out); !errors.As(err, &f) {
		w.t.Fatalf("%s %+v: want a refusal, got %v and %v", verb, q, err, out)
	}
	return f.Problem
}

const cancelTools = `  look.busy: { function: busy, effect: read, concurrency: 2, policies: [slow] }
  look.long: { function: long, effect: read, concurrency: 1, policies: [slow] }
  pay.long: { function: long, effect: write, concurrency: 1, policies: [slow] }
  pay.late: { function: late, effect: write, concurrency: 1, policies: [slow] }
  look.up: { function: ok, effect: read, policies: [slow] }
`

// cancelWorld has tools that fail with a stated wait, that run until they are told
// to stop, and that finish although they were told.
func cancelWorld(t *testing.T) (*world, map[string]*seen) {
	by := map[string]*seen{"look.busy": {}, "look.long": {}, "pay.long": {}, "pay.late": {}, "look.up": {}}
	return newWorld(t, cancelTools, map[string]function.Func{
		"busy": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			by[in.Tool].add(in)
			return nil, function.Transient("BUSY", "busy", 5*time.Second)
		},
		"long": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			by[in.Tool].add(in)
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"late": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			by[in.Tool].add(in)
			<-ctx.Done()
			return "done all the same", nil
		},
		"ok": func(_ context.Context, in dispatcher.Invocation) (any, error) { by[in.Tool].add(in); return "ok", nil },
	}), by
}

// B74: a run is cancelled while calls of it wait, run and queue. Nothing of it
// starts any more; what ran is recorded as it ended; other runs go on.
func TestB74ACancelledRunExecutesNothingMore(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, by := cancelWorld(t)
		waits := msg{tool: "look.busy", run: "r/child", key: "waits", deadline: time.Hour}
		runs := msg{tool: "look.long", run: "r", key: "runs", deadline: time.Hour}
		queued := msg{tool: "look.long", run: "r", key: "queued", deadline: time.Hour}
		pays := msg{tool: "pay.long", run: "r", key: "pays", deadline: time.Hour}
		late := msg{tool: "pay.late", run: "r", key: "late", deadline: time.Hour}
		other := msg{tool: "look.busy", run: "other", key: "k", deadline: time.Hour}
		for _, m := range []msg{waits, runs, pays, late, other} {
			w.publish(m)
		}
		time.Sleep(500 * time.Millisecond)
		w.publish(queued)
		time.Sleep(500 * time.Millisecond)
		rep := w.cancel(dispatcher.CancelRequest{Run: "r", Reason: "user left"})
		if rep != (dispatcher.CancelReport{Cancelled: 1, Running: 3}) {
			t.Errorf("report %+v", rep)
		}
		want := map[string]struct {
			m        msg
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
			o := w.outcome(c.m, 2*time.Second)
			if o.Status != c.status || len(o.Attempts) != c.attempts {
				t.Errorf("%s: %s %s, attempts %+v", name, o.Status, o.Code(), o.Attempts)
			}
			if name == "runs" && o.Attempts[0].Code != schemas.CodeCancelled {
				t.Errorf("the cause of the interruption: %+v", o.Attempts[0])
			}
		}
		time.Sleep(30 * time.Second)
		for tool, n := range map[string]int{"look.long": 1, "pay.long": 1, "pay.late": 1} {
			if got := by[tool].n(); got != n {
				t.Errorf("%s executed %d times, want %d", tool, got, n)
			}
		}
		if o := w.outcome(other, time.Minute); o.Status != schemas.Exhausted || len(o.Attempts) != 4 {
			t.Errorf("the other run: %s %s", o.Status, o.Code())
		}
		// what comes later is cancelled, too, at any path below
		for _, run := range []string{"r", "r/child", "r/new"} {
			if o := w.do(msg{tool: "look.up", run: run, key: "later"}); o.Status != schemas.Cancelled || o.ServiceCode() != 410 {
				t.Errorf("%s: %s", run, o.Status)
			}
		}
		if n := by["look.up"].n(); n != 0 {
			t.Errorf("%d executed after the cancel", n)
		}
		// no replay of a cancelled run without a new payer
		l := w.lettersOf("r")
		if len(l) != 1 || l[0].Reason != schemas.ReasonUnknownOutcome {
			t.Fatalf("letters %+v", l)
		}
		p := w.problem(control.VerbReplay, control.ReplayQuery{ID: l[0].ID, ReplayOptions: deadletter.ReplayOptions{IncludeUnknown: true}})
		if p.Code != 409 || p.Try != "--new-run" {
			t.Errorf("replay of a cancelled run: %+v", p)
		}
		w.verify()
	})
}

// A run nobody knows yet is remembered as cancelled, across a restart; a child path
// is cancelled without its parent.
func TestACancelledRunIsRememberedBeforeItsFirstCall(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, by := cancelWorld(t)
		if rep := w.cancel(dispatcher.CancelRequest{Run: "r/child", Reason: "too early"}); rep != (dispatcher.CancelReport{Unknown: 1}) {
			t.Errorf("report %+v", rep)
		}
		w.stop()
		w.start()
		for run, want := range map[string]schemas.Status{"r/child": schemas.Cancelled, "r/child/grand": schemas.Cancelled, "r": schemas.Succeeded, "r/sibling": schemas.Succeeded} {
			m := msg{tool: "look.up", run: run, key: run}
			w.publish(m)
			if o := w.outcome(m, 5*time.Second); o.Status != want {
				t.Errorf("%s: %s %s", run, o.Status, o.Code())
			}
		}
		if n := by["look.up"].n(); n != 2 {
			t.Errorf("%d executed", n)
		}
		if n, _ := w.account("r"); n != 2 {
			t.Errorf("charged %d", n)
		}
		w.verify()
	})
}

// One call is cancelled: waiting, running, unknown, settled; the rest of its run
// goes on, and another tenant's word does not count.
func TestACallIsCancelledAlone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, by := cancelWorld(t)
		waits := msg{tool: "look.busy", run: "r", key: "waits", deadline: time.Hour}
		runs := msg{tool: "look.long", run: "r", key: "runs", deadline: time.Hour}
		stays := msg{tool: "look.busy", run: "r", key: "stays", deadline: time.Hour}
		for _, m := range []msg{waits, runs, stays} {
			w.publish(m)
		}
		time.Sleep(time.Second)
		foreign, err := w.ctl.Cancel(context.Background(), "stranger", dispatcher.CancelRequest{Call: callID(waits)})
		if err != nil || foreign.Unknown != 1 || w.stored(waits) != nil {
			t.Errorf("another tenant: %+v %v", foreign, err)
		}
		for call, want := range map[string]dispatcher.CancelReport{
			callID(waits): {Cancelled: 1}, callID(runs): {Running: 1}, "nosuchcall": {Unknown: 1},
		} {
			if rep := w.cancel(dispatcher.CancelRequest{Call: call, Reason: "test"}); rep != want {
				t.Errorf("%s: %+v, want %+v", call, rep, want)
			}
		}
		for _, m := range []msg{waits, runs} {
			if o := w.outcome(m, 2*time.Second); o.Status != schemas.Cancelled {
				t.Errorf("%s: %s %s", m.key, o.Status, o.Code())
			}
		}
		if rep := w.cancel(dispatcher.CancelRequest{Call: callID(waits)}); rep != (dispatcher.CancelReport{}) {
			t.Errorf("a settled call: %+v", rep)
		}
		if o := w.outcome(stays, time.Minute); o.Status != schemas.Exhausted || len(o.Attempts) != 4 {
			t.Errorf("the other call: %s %s", o.Status, o.Code())
		}
		time.Sleep(20 * time.Second)
		if n := by["look.busy"].n() + by["look.long"].n(); n != 6 {
			t.Errorf("%d executed, want 1 + 4 and 1", n)
		}
		w.verify()
	})
}

// A cancelled call's retry does not come back, whatever is still on the streams.
func TestACancelledWaitingCallIsNotWokenByItsSchedule(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, by := cancelWorld(t)
		m := msg{tool: "look.busy", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		time.Sleep(time.Second)
		w.cancel(dispatcher.CancelRequest{Run: "r"})
		time.Sleep(time.Minute)
		if o := w.stored(m); o == nil || o.Status != schemas.Cancelled || by["look.busy"].n() != 1 {
			t.Errorf("%+v, %d executed", o, by["look.busy"].n())
		}
		if n := w.onStream("TOLLGATE_RETRY", ">"); n != 0 {
			t.Errorf("%d messages left on the retry stream", n)
		}
	})
}
