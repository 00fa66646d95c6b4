package e2e

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B49: what is put back, however often, is no attempt. Attempts are counted where
// they are made, not by deliveries.
func TestB49PutBacksAreNotCharged(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		w := newWorld(t, `  rated: { function: ok, effect: write, retry_safety: idempotent, dependency: rated, concurrency: 8, policies: [slow] }
dependencies: { rated: { rate: { per_s: 0.1, burst: 1 } } }
`, map[string]function.Func{"ok": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.add(in); in.Key == "" {
				return nil, function.Permanent("NO_KEY", "no key")
			}
			return "ok", nil
		}})
		var calls []msg
		for i := range 9 {
			m := msg{tool: "rated", run: "r", key: strconv.Itoa(i), deadline: time.Hour}
			w.publish(m)
			calls = append(calls, m)
		}
		time.Sleep(25 * time.Second)
		if a, e := w.account("r"); a != 3 || e != 3 || s.n() != 3 {
			t.Errorf("after 25 s: charged %d and %d, executed %d", a, e, s.n())
		}
		if st := ask[control.CallsPage](w, control.VerbCallsList, control.CallsQuery{}); len(st.Calls) != 3 {
			t.Errorf("%d records: what was put back has none", len(st.Calls))
		}
		c, err := w.js.Consumer(t.Context(), "TOLLGATE_CALLS", "calls-rated")
		if err != nil {
			t.Fatal(err)
		}
		if n := c.CachedInfo().Delivered.Consumer; n < 12 {
			t.Errorf("only %d deliveries: nothing was put back", n)
		}
		for _, m := range calls {
			if o := w.outcome(m, 3*time.Minute); o.Status != schemas.Succeeded || len(o.Attempts) != 1 || o.Attempts[0].N != 1 {
				t.Errorf("%s: %s, attempts %+v", m.key, o.Status, o.Attempts)
			}
		}
		for i := 1; i < len(s.at); i++ {
			if gap := s.at[i].Sub(s.at[i-1]); gap < 9900*time.Millisecond {
				t.Errorf("%s between %d and %d, the rate is one in 10 s", gap, i-1, i)
			}
		}
		w.verify()
	})
}

// B49: a put-back is bounded by the deadline.
func TestB49APutBackIsBoundedByTheDeadline(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		w := newWorld(t, `  rated: { function: ok, effect: read, dependency: rated, policies: [slow] }
dependencies: { rated: { rate: { per_s: 0.01, burst: 1 } } }
`, map[string]function.Func{"ok": echo(&s)})
		w.do(msg{tool: "rated", run: "q", key: "first"})
		m := msg{tool: "rated", run: "r", key: "k", deadline: 30 * time.Second}
		w.publish(m)
		o := w.outcome(m, 40*time.Second)
		if n, _ := w.account("r"); o.Status == schemas.Succeeded || n != 0 || s.n() != 1 || o.Timing.Settled.After(o.Timing.Deadline) {
			t.Errorf("%s %s, charged %d, executed %d", o.Status, o.Code(), n, s.n())
		}
	})
}

// B50, I3, I14: a charge comes back only on proof that nothing was sent. While an
// attempt runs its hold is listed with call, owner and expiry.
func TestB50NoBudgetLeaksAndNoneIsGivenBackUnproven(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		w := newWorld(t, `  unsent: { nats: { subject: svc.nobody }, effect: write, policies: [slow] }
  pay: { function: pay, effect: write, policies: [slow] }
`, map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			if s.add(in) == 1 {
				<-ctx.Done()
			}
			return "ok", nil
		}})
		limit := map[string]string{schemas.HeaderRunSideEffects: "3"}
		// one is cancelled before it is sent
		ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "pay"})
		never := msg{tool: "pay", run: "r", key: "never", header: limit}
		w.publish(never)
		time.Sleep(time.Second)
		w.cancel(dispatcher.CancelRequest{Call: callID(never)})
		// one provably never left
		unsent := msg{tool: "unsent", run: "r", key: "unsent", header: limit}
		w.publish(unsent)
		if o := w.outcome(unsent, time.Minute); o.Status != schemas.Exhausted || o.Attempts[0].Phase != "not_sent" {
			t.Errorf("unsent: %s %+v", o.Status, o.Attempts)
		}
		if a, e := w.account("r"); a != 4 || e != 0 {
			t.Errorf("unsent: charged %d and %d", a, e)
		}
		time.Sleep(time.Minute) // the paused one expires meanwhile
		ask[control.ToolDetail](w, control.VerbToolResume, control.ToolQuery{Tool: "pay"})
		// and one was sent when the dispatcher died
		killed := msg{tool: "pay", run: "r", key: "killed", header: limit}
		w.publish(killed)
		time.Sleep(500 * time.Millisecond)
		run := ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"})
		if len(run.Holds) != 1 || run.Holds[0].Call != callID(killed) || run.Holds[0].Epoch == 0 || !run.Holds[0].Until.After(time.Now()) {
			t.Errorf("holds %+v", run.Holds)
		}
		w.crash()
		w.start()
		if o := w.outcome(killed, time.Minute); o.Status != schemas.UnknownOutcome {
			t.Errorf("killed: %s", o.Status)
		}
		if _, e := w.account("r"); e != 1 {
			t.Errorf("after recovery %d side effects are charged", e)
		}
		for i, want := range []schemas.Status{schemas.Succeeded, schemas.Succeeded, schemas.Exhausted} {
			if o := w.do(msg{tool: "pay", run: "r", key: strconv.Itoa(i)}); o.Status != want {
				t.Errorf("write %d: %s %s", i, o.Status, o.Code())
			}
		}
		if run := ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"}); len(run.Holds) != 0 {
			t.Errorf("holds left: %+v", run.Holds)
		}
		w.verify()
	})
}

// B88, I2, I7: the effect happened and its answer was lost, on three classes of
// tools; and a request that never left is plainly transient.
func TestB88AnUnknownOutcomeIsNeverReportedAsFailed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		byTool := map[string]*seen{"pay.keyed": {}, "pay.never": {}, "look.up": {}}
		w := newWorld(t, threeWrites+"  late: { nats: { subject: svc.late }, effect: write, policies: [slow] }\n", map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			if byTool[in.Tool].add(in) < 3 {
				<-ctx.Done() // it acts, and its answer is lost
				return nil, ctx.Err()
			}
			return "ok", nil
		}})
		var wg sync.WaitGroup
		for tool, s := range byTool {
			wg.Go(func() {
				o := w.do(msg{tool: tool, run: strings.ReplaceAll(tool, ".", "-"), key: "k", deadline: time.Hour, body: `{"a":1}`})
				want, n := schemas.Succeeded, 3
				if tool == "pay.never" {
					want, n = schemas.UnknownOutcome, 1
				}
				if o.Status != want || s.n() != n || len(o.Attempts) != n {
					t.Errorf("%s: %s %s after %d executions", tool, o.Status, o.Code(), s.n())
				}
				for _, c := range s.calls {
					if c.Key != o.Call {
						t.Errorf("%s: the downstream key changed: %s", tool, c.Key)
					}
				}
			})
		}
		// nobody listens at first: it never left, so even an unsafe write is repeated
		wg.Go(func() {
			o := w.do(msg{tool: "late", run: "late", key: "k", deadline: time.Hour})
			if o.Status != schemas.Succeeded || len(o.Attempts) < 2 || o.Attempts[0].Phase != "not_sent" {
				t.Errorf("late: %s %s, attempts %+v", o.Status, o.Code(), o.Attempts)
			}
			if _, e := w.account("late"); e != 1 {
				t.Errorf("late: %d side effects charged", e)
			}
		})
		time.Sleep(100 * time.Millisecond)
		var got atomic.Int64
		if _, err := w.nc.Subscribe("svc.late", func(m *nats.Msg) { got.Add(1); _ = m.Respond([]byte(`{}`)) }); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Errorf("late: %d requests", got.Load())
		}
		l := w.lettersOf("")
		if len(l) != 1 || l[0].Reason != schemas.ReasonUnknownOutcome || l[0].Tool != "pay.never" {
			t.Errorf("letters %+v", l)
		}
		w.verify()
	})
}

// B90: client errors, throttling and our own interruptions leave the breaker alone;
// failures open it whatever comes between; a client error does not close it.
func TestB90ClientErrorsNeitherOpenNorCloseTheBreaker(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, `  look: { function: look, effect: read, dependency: api, policies: [quick] }
dependencies: { api: { breaker: { consecutive: 5, ratio: 1, least: 1000, cooldown: 30s }, quota: { ratio: 1, burst: 1000 } } }
`, map[string]function.Func{"look": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			switch what := string(in.Arguments); {
			case strings.Contains(what, "client"):
				return nil, function.Permanent("BAD", "bad")
			case strings.Contains(what, "down"):
				return nil, function.Transient("DOWN", "down", time.Minute) // does not fit: no retry
			}
			return "ok", nil
		}})
		n := 0
		call := func(what string) *schemas.Outcome {
			n++
			return w.do(msg{tool: "look", run: "r", key: strconv.Itoa(n), deadline: 20 * time.Second, body: `{"do":"` + what + `"}`})
		}
		state := func() string {
			return ask[control.ToolDetail](w, control.VerbToolShow, control.ToolQuery{Tool: "look"}).Health.Breaker
		}
		for range 20 {
			call("client")
		}
		if state() != "closed" {
			t.Fatalf("client errors: %s", state())
		}
		for i := range 5 {
			if state() != "closed" {
				t.Errorf("open after %d failures", i)
			}
			call("down")
			call("client")
		}
		if state() != "open" {
			t.Fatalf("five failures between client errors: %s", state())
		}
		spent, _ := w.account("r")
		if o := call("ok"); o.Status != schemas.Unavailable || o.Code() != schemas.CodeBreakerOpen {
			t.Errorf("while open: %s %s", o.Status, o.Code())
		}
		time.Sleep(30 * time.Second)
		if o := call("client"); o.Status != schemas.ToolError || state() != "half-open" {
			t.Errorf("a client error as the probe: %s, then %s", o.Status, state())
		}
		if o := call("ok"); o.Status != schemas.Succeeded || state() != "closed" {
			t.Errorf("the probe: %s, then %s", o.Status, state())
		}
		if now, _ := w.account("r"); now != spent+2 {
			t.Errorf("charged %d while open", now-spent-2)
		}
		w.verify()
	})
}
