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
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B49: what is put back, however often, is no attempt. Attempts are counted where
// they are made, not by deliveries.
func TestB49PutBacksAreNotCharged(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  rated: { function: ok, effect: write, retry_safety: idempotent, dependency: rated, concurrency: 8, policies: [slow] }
dependencies: { rated: { rate: { per_s: 0.1, burst: 1 } } }
`, map[string]function.Func{"ok": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in); in.Key == "" {
				return nil, function.Permanent("NO_KEY", "no key")
			}
			return "ok", nil
		}})
		var calls []worldtest.Msg
		for i := range 9 {
			m := worldtest.Msg{Tool: "rated", Run: "r", Key: strconv.Itoa(i), Deadline: time.Hour}
			w.Publish(m)
			calls = append(calls, m)
		}
		time.Sleep(25 * time.Second)
		if a, e := w.Account("r"); a != 3 || e != 3 || s.N() != 3 {
			t.Errorf("after 25 s: charged %d and %d, executed %d", a, e, s.N())
		}
		if st := worldtest.Ask[control.CallsPage](w, control.VerbCallsList, control.CallsQuery{}); len(st.Calls) != 3 {
			t.Errorf("%d records: what was put back has none", len(st.Calls))
		}
		c, err := w.JS.Consumer(t.Context(), "TOLLGATE_CALLS", "calls-rated")
		if err != nil {
			t.Fatal(err)
		}
		if n := c.CachedInfo().Delivered.Consumer; n < 12 {
			t.Errorf("only %d deliveries: nothing was put back", n)
		}
		for _, m := range calls {
			if o := w.Outcome(m, 3*time.Minute); o.Status != schemas.Succeeded || len(o.Attempts) != 1 || o.Attempts[0].N != 1 {
				t.Errorf("%s: %s, attempts %+v", m.Key, o.Status, o.Attempts)
			}
		}
		for i := 1; i < len(s.At); i++ {
			if gap := s.At[i].Sub(s.At[i-1]); gap < 9900*time.Millisecond {
				t.Errorf("%s between %d and %d, the rate is one in 10 s", gap, i-1, i)
			}
		}
		w.Verify()
	})
}

// B49: a put-back is bounded by the deadline.
func TestB49APutBackIsBoundedByTheDeadline(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  rated: { function: ok, effect: read, dependency: rated, policies: [slow] }
dependencies: { rated: { rate: { per_s: 0.01, burst: 1 } } }
`, map[string]function.Func{"ok": echo(&s)})
		w.Do(worldtest.Msg{Tool: "rated", Run: "q", Key: "first"})
		m := worldtest.Msg{Tool: "rated", Run: "r", Key: "k", Deadline: 30 * time.Second}
		w.Publish(m)
		o := w.Outcome(m, 40*time.Second)
		if n, _ := w.Account("r"); o.Status == schemas.Succeeded || n != 0 || s.N() != 1 || o.Timing.Settled.After(o.Timing.Deadline) {
			t.Errorf("%s %s, charged %d, executed %d", o.Status, o.Code(), n, s.N())
		}
	})
}

// B50, I3, I14: a charge comes back only on proof that nothing was sent. While an
// attempt runs its hold is listed with call, owner and expiry.
func TestB50NoBudgetLeaksAndNoneIsGivenBackUnproven(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  unsent: { nats: { subject: svc.nobody }, effect: write, policies: [slow] }
  pay: { function: pay, effect: write, policies: [slow] }
`, map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in) == 1 {
				<-ctx.Done()
			}
			return "ok", nil
		}})
		limit := map[string]string{schemas.HeaderRunSideEffects: "3"}
		// one is cancelled before it is sent
		worldtest.Ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "pay"})
		never := worldtest.Msg{Tool: "pay", Run: "r", Key: "never", Header: limit}
		w.Publish(never)
		time.Sleep(time.Second)
		cancelCalls(w, dispatcher.CancelRequest{Call: worldtest.CallID(never)})
		// one provably never left
		unsent := worldtest.Msg{Tool: "unsent", Run: "r", Key: "unsent", Header: limit}
		w.Publish(unsent)
		if o := w.Outcome(unsent, time.Minute); o.Status != schemas.Exhausted || o.Attempts[0].Phase != "not_sent" {
			t.Errorf("unsent: %s %+v", o.Status, o.Attempts)
		}
		if a, e := w.Account("r"); a != 4 || e != 0 {
			t.Errorf("unsent: charged %d and %d", a, e)
		}
		time.Sleep(time.Minute) // the paused one expires meanwhile
		worldtest.Ask[control.ToolDetail](w, control.VerbToolResume, control.ToolQuery{Tool: "pay"})
		// and one was sent when the dispatcher died
		killed := worldtest.Msg{Tool: "pay", Run: "r", Key: "killed", Header: limit}
		w.Publish(killed)
		time.Sleep(500 * time.Millisecond)
		run := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"})
		if len(run.Holds) != 1 || run.Holds[0].Call != worldtest.CallID(killed) || run.Holds[0].Epoch == 0 || !run.Holds[0].Until.After(time.Now()) {
			t.Errorf("holds %+v", run.Holds)
		}
		w.Crash()
		w.Start()
		if o := w.Outcome(killed, time.Minute); o.Status != schemas.UnknownOutcome {
			t.Errorf("killed: %s", o.Status)
		}
		if _, e := w.Account("r"); e != 1 {
			t.Errorf("after recovery %d side effects are charged", e)
		}
		for i, want := range []schemas.Status{schemas.Succeeded, schemas.Succeeded, schemas.Exhausted} {
			if o := w.Do(worldtest.Msg{Tool: "pay", Run: "r", Key: strconv.Itoa(i)}); o.Status != want {
				t.Errorf("write %d: %s %s", i, o.Status, o.Code())
			}
		}
		if run := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"}); len(run.Holds) != 0 {
			t.Errorf("holds left: %+v", run.Holds)
		}
		w.Verify()
	})
}

// B88, I2, I7: the effect happened and its answer was lost, on three classes of
// tools; and a request that never left is plainly transient.
func TestB88AnUnknownOutcomeIsNeverReportedAsFailed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		byTool := map[string]*worldtest.Seen{"pay.keyed": {}, "pay.never": {}, "look.up": {}}
		w := worldtest.New(t, threeWrites+"  late: { nats: { subject: svc.late }, effect: write, policies: [slow] }\n", map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			if byTool[in.Tool].Add(in) < 3 {
				<-ctx.Done() // it acts, and its answer is lost
				return nil, ctx.Err()
			}
			return "ok", nil
		}})
		var wg sync.WaitGroup
		for tool, s := range byTool {
			wg.Go(func() {
				o := w.Do(worldtest.Msg{Tool: tool, Run: strings.ReplaceAll(tool, ".", "-"), Key: "k", Deadline: time.Hour, Body: `{"a":1}`})
				want, n := schemas.Succeeded, 3
				if tool == "pay.never" {
					want, n = schemas.UnknownOutcome, 1
				}
				if o.Status != want || s.N() != n || len(o.Attempts) != n {
					t.Errorf("%s: %s %s after %d executions", tool, o.Status, o.Code(), s.N())
				}
				for _, c := range s.Calls {
					if c.Key != o.Call {
						t.Errorf("%s: the downstream key changed: %s", tool, c.Key)
					}
				}
			})
		}
		// nobody listens at first: it never left, so even an unsafe write is repeated
		wg.Go(func() {
			o := w.Do(worldtest.Msg{Tool: "late", Run: "late", Key: "k", Deadline: time.Hour})
			if o.Status != schemas.Succeeded || len(o.Attempts) < 2 || o.Attempts[0].Phase != "not_sent" {
				t.Errorf("late: %s %s, attempts %+v", o.Status, o.Code(), o.Attempts)
			}
			if _, e := w.Account("late"); e != 1 {
				t.Errorf("late: %d side effects charged", e)
			}
		})
		time.Sleep(100 * time.Millisecond)
		var got atomic.Int64
		if _, err := w.NC.Subscribe("svc.late", func(m *nats.Msg) { got.Add(1); _ = m.Respond([]byte(`{}`)) }); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Errorf("late: %d requests", got.Load())
		}
		l := w.LettersOf("")
		if len(l) != 1 || l[0].Reason != schemas.ReasonUnknownOutcome || l[0].Tool != "pay.never" {
			t.Errorf("letters %+v", l)
		}
		w.Verify()
	})
}

// B90: client errors, throttling and our own interruptions leave the breaker alone;
// failures open it whatever comes between; a client error does not close it.
func TestB90ClientErrorsNeitherOpenNorCloseTheBreaker(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := worldtest.New(t, `  look: { function: look, effect: read, dependency: api, policies: [quick] }
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
			return w.Do(worldtest.Msg{Tool: "look", Run: "r", Key: strconv.Itoa(n), Deadline: 20 * time.Second, Body: `{"do":"` + what + `"}`})
		}
		state := func() string {
			return worldtest.Ask[control.ToolDetail](w, control.VerbToolShow, control.ToolQuery{Tool: "look"}).Health.Breaker
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
		spent, _ := w.Account("r")
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
		if now, _ := w.Account("r"); now != spent+2 {
			t.Errorf("charged %d while open", now-spent-2)
		}
		w.Verify()
	})
}
