package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/natstest"
	"tollgate/internal/owner"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// timedStop stops the dispatcher and says how long that took.
func timedStop(w *worldtest.World) time.Duration {
	start := time.Now()
	w.Stop()
	return time.Since(start)
}

const stopTools = `  work: { function: work, effect: read, concurrency: 2, policies: [slow] }
  pay: { function: work, effect: write, concurrency: 2, policies: [slow] }
`

// B72: a stop lets running calls finish, hands what is buffered back at once, and is
// over when the last call is.
func TestB72AStopFinishesWhatRunsAndHandsBackTheRest(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, stopTools, map[string]function.Func{"work": sleeps(&s, 2500*time.Millisecond)})
		var calls []worldtest.Msg
		for i := range 8 {
			m := worldtest.Msg{Tool: "work", Run: "r", Key: strconv.Itoa(i), Deadline: time.Hour}
			w.Publish(m)
			calls = append(calls, m)
		}
		time.Sleep(time.Second)
		if s.N() != 2 {
			t.Fatalf("%d running", s.N())
		}
		if d := timedStop(w); d > 2*time.Second {
			t.Errorf("the stop took %s", d)
		}
		done := 0
		for _, m := range calls {
			if o := w.Stored(m); o != nil && o.Status == schemas.Succeeded {
				done++
			}
		}
		c, err := w.JS.Consumer(t.Context(), "TOLLGATE_CALLS", "calls-work")
		if err != nil {
			t.Fatal(err)
		}
		if left := c.CachedInfo().NumPending + uint64(c.CachedInfo().NumAckPending); done != 2 || s.N() != 2 || left != 6 {
			t.Errorf("%d outcomes, %d executed, %d left to deliver", done, s.N(), left)
		}
		w.Start()
		time.Sleep(100 * time.Millisecond) // long before any acknowledgement would be missed
		if s.N() != 4 {
			t.Errorf("%d executed right after the restart", s.N())
		}
		for _, m := range calls {
			if o := w.Outcome(m, 15*time.Second); o.Status != schemas.Succeeded || len(o.Attempts) != 1 {
				t.Errorf("%s: %s, attempts %+v", m.Key, o.Status, o.Attempts)
			}
		}
		if n, _ := w.Account("r"); n != 8 || s.N() != 8 {
			t.Errorf("charged %d, executed %d", n, s.N())
		}
		w.Verify()
	})
}

// A stop does not wait for callers of the endpoint whose calls wait elsewhere: they
// are told that theirs goes on, and those not yet admitted that it was not.
func TestAStopAnswersTheEndpointsCallersAtOnce(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  busy: { function: busy, effect: read, policies: [slow] }
  work: { function: work, effect: read, concurrency: 1, policies: [slow] }
`, map[string]function.Func{"busy": failsFirst(&s, 1, 5*time.Minute), "work": sleeps(&worldtest.Seen{}, 2500*time.Millisecond)})
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[string]string{}
		call := func(tool, key string) {
			wg.Go(func() {
				o := w.Do(worldtest.Msg{Tool: tool, Run: "r", Key: key, Deadline: time.Hour})
				mu.Lock()
				defer mu.Unlock()
				got[key] = strings.TrimSpace(string(o.Status) + " " + o.Code())
			})
			time.Sleep(200 * time.Millisecond)
		}
		call("busy", "waits")
		call("work", "runs")
		call("work", "queued")
		if d := timedStop(w); d > 3*time.Second {
			t.Errorf("the stop took %s", d)
		}
		wg.Wait()
		want := map[string]string{"waits": "unknown_outcome " + schemas.CodeStillRunning, "runs": "succeeded", "queued": "rejected " + schemas.CodeLedgerDown}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s, want %s", k, got[k], v)
			}
		}
		w.Start()
		time.Sleep(5 * time.Minute)
		if o := w.Outcome(worldtest.Msg{Tool: "busy", Run: "r", Key: "waits"}, 2*time.Minute); o.Status != schemas.Succeeded {
			t.Errorf("it goes on: %s", o.Status)
		}
		if n, _ := w.Account("r"); n != 3 {
			t.Errorf("charged %d: the queued call must not be", n)
		}
		w.Verify()
	})
}

// B73: what a stop interrupts is no failure of the tool. A read goes back and
// completes later; an unsafe write is an unknown outcome that says why.
func TestB73AnInterruptionIsNeitherPermanentNorGuessed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  look: { function: first, effect: read, policies: [patient] }
  pay: { function: first, effect: write, policies: [patient] }
`, map[string]function.Func{"first": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			if in.Attempt > 1 {
				return "ok", nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), dispatcher.ErrShutdown) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return nil, ctx.Err()
		}})
		w.Stop()
		w.Config = worldtest.ReplaceOnce(t, w.Config, "limits: {", "limits: { shutdown_grace: 1s,")
		w.Start()
		look := worldtest.Msg{Tool: "look", Run: "r", Key: "1", Deadline: time.Hour}
		pay := worldtest.Msg{Tool: "pay", Run: "r", Key: "2", Deadline: time.Hour}
		w.Publish(look)
		w.Publish(pay)
		time.Sleep(time.Second)
		if d := timedStop(w); d < time.Second || d > 2*time.Second {
			t.Errorf("the stop took %s", d)
		}
		if w.Stored(look) != nil {
			t.Errorf("look has ended: %+v", w.Stored(look))
		}
		w.Start()
		o := w.Outcome(look, 20*time.Second)
		if o.Status != schemas.Succeeded || len(o.Attempts) != 2 || o.Attempts[0].Code != schemas.CodeInterrupted || o.Attempts[0].Class != "transient" {
			t.Errorf("look: %s, attempts %+v", o.Status, o.Attempts)
		}
		u := w.Outcome(pay, 20*time.Second)
		if u.Status != schemas.UnknownOutcome || u.Code() != schemas.CodeInterrupted || u.NextAction != schemas.Reconcile || !strings.Contains(u.Error.Message, "shutdown") {
			t.Errorf("pay: %s %+v", u.Status, u.Error)
		}
		l := w.LettersOf("r")
		if len(l) != 1 || l[0].Reason != schemas.ReasonUnknownOutcome || l[0].Class == "permanent" {
			t.Errorf("letters %+v", l)
		}
		if s.N() != 3 {
			t.Errorf("%d executed", s.N())
		}
		w.Verify()
	})
}

// B57: a second dispatcher with a ledger file of its own is refused while the first
// runs; the first goes on and says which guarantee holds.
func TestB57ASecondDispatcherWithItsOwnLedgerIsRefused(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		second := *w
		second.Config = worldtest.ReplaceOnce(t, w.Config, "ledger.db", "second.db")
		_, err := app.Start(t.Context(), second.Options())
		var refused *owner.Refused
		if !errors.As(err, &refused) {
			t.Fatalf("the second start: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(w.Dir, "second*")); len(left) != 0 {
			t.Errorf("it left %v behind", left)
		}
		// the owner is still served, and still the owner a term later
		time.Sleep(30 * time.Second)
		for i := range 3 {
			if o := w.Do(worldtest.Msg{Tool: "look.up", Run: "r", Key: strconv.Itoa(i)}); o.Status != schemas.Succeeded {
				t.Errorf("%s", o.Status)
			}
		}
		st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{})
		if !st.Ready || !st.Owner || st.Guarantee == "" || s.N() != 3 {
			t.Errorf("status %+v, %d executed", st, s.N())
		}
		// and after an orderly stop a foreign file is refused all the same
		w.Stop()
		if _, err := app.Start(t.Context(), second.Options()); !errors.As(err, &refused) {
			t.Errorf("a foreign file after the stop: %v", err)
		}
		w.Start()
		w.Verify()
	})
}

// B75: the server goes away for a while with calls pending and one running. Pulling
// goes on by itself, each call runs once, and the running one is acknowledged.
func TestB75PullingGoesOnAfterTheServerWasAway(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  work: { function: work, effect: write, concurrency: 1, policies: [patient] }
`, map[string]function.Func{"work": sleeps(&s, 5*time.Second)})
		var calls []worldtest.Msg
		for i := range 6 {
			m := worldtest.Msg{Tool: "work", Run: "r", Key: strconv.Itoa(i), Deadline: time.Hour}
			w.Publish(m)
			calls = append(calls, m)
		}
		time.Sleep(time.Second)
		w.Node.Restart(t, 3*time.Second)
		back := time.Now()
		for s.N() < 2 && time.Since(back) < 20*time.Second {
			time.Sleep(50 * time.Millisecond)
		}
		if d := time.Since(back); d > 10*time.Second {
			t.Errorf("the next call started %s after the server was back", d)
		}
		for _, m := range calls {
			if o := w.Outcome(m, 2*time.Minute); o.Status != schemas.Succeeded || len(o.Attempts) != 1 {
				t.Errorf("%s: %s %s, attempts %+v", m.Key, o.Status, o.Code(), o.Attempts)
			}
		}
		time.Sleep(40 * time.Second)
		if n := w.Messages("TOLLGATE_CALLS", ">"); n != 0 || s.N() != 6 {
			t.Errorf("%d messages left, %d executed", n, s.N())
		}
		st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{})
		if !st.Ready || st.Owed != 0 {
			t.Errorf("status %+v", st)
		}
		w.Verify()
	})
}

// B75: a consumer that somebody removed is made again; nothing on the stream is lost.
func TestB75ARemovedConsumerIsMadeAgain(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		if err := w.JS.DeleteConsumer(t.Context(), "TOLLGATE_CALLS", "calls-look=2Eup"); err != nil {
			t.Fatal(err)
		}
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k"}
		w.Publish(m)
		if o := w.Outcome(m, 10*time.Second); o.Status != schemas.Succeeded || s.N() != 1 {
			t.Errorf("%s, %d executed", o.Status, s.N())
		}
	})
}
