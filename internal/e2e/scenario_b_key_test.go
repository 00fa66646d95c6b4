package e2e

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/config"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// echo answers with the arguments it was given.
func echo(s *worldtest.Seen) function.Func {
	return func(_ context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		return json.RawMessage(in.Arguments), nil
	}
}

// B51, I13: one key in two tenants, two runs and two tools is four operations.
func TestB51AKeyIsItsTenantsRunsAndToolsOwn(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  doc.create: { function: echo, effect: write, policies: [quick] }
  doc.cancel: { function: echo, effect: write, policies: [quick] }
tenants: { a: { tools: ["*"] }, b: { tools: ["*"] } }
`, map[string]function.Func{"echo": echo(&s)})
		calls := []worldtest.Msg{
			{Tenant: "a", Run: "r", Tool: "doc.create", Key: "1", Body: `{"n":1}`},
			{Tenant: "a", Run: "r", Tool: "doc.cancel", Key: "1", Body: `{"n":2}`},
			{Tenant: "a", Run: "r2", Tool: "doc.create", Key: "1", Body: `{"n":3}`},
			{Tenant: "b", Run: "r", Tool: "doc.create", Key: "1", Body: `{"n":4}`},
		}
		var wg sync.WaitGroup
		for _, m := range calls {
			wg.Go(func() {
				if o := w.Do(m); o.Status != schemas.Succeeded || string(o.Structured) != m.Body || o.Tenant != m.Tenant {
					t.Errorf("%+v: %s %s", m, o.Status, o.Structured)
				}
			})
		}
		wg.Wait()
		keys := map[string]bool{}
		for _, c := range s.Calls {
			keys[c.Key] = true
		}
		if s.N() != 4 || len(keys) != 4 {
			t.Errorf("%d executed under %d downstream keys", s.N(), len(keys))
		}
		w.Verify()
	})
}

// B53, I13: the same key with another payload conflicts at once, while the first
// runs and after it, and never shows the first one's result.
func TestB53TheSameKeyWithAnotherPayloadConflicts(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, "  pay: { function: slow, effect: write, policies: [quick] }\n", map[string]function.Func{"slow": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			time.Sleep(2 * time.Second)
			return map[string]any{"secret": 42}, nil
		}})
		five := worldtest.Msg{Tool: "pay", Run: "r", Key: "k1", Body: `{"amount":5}`}
		six := five
		six.Body = `{"amount":6}`
		conflict := func(when string) {
			start := time.Now()
			o := w.Do(six)
			if o.Status != schemas.Rejected || o.Code() != schemas.CodeKeyConflict || time.Since(start) > 200*time.Millisecond {
				t.Errorf("%s: %s %s after %s", when, o.Status, o.Code(), time.Since(start))
			}
			w.Publish(six)
			time.Sleep(100 * time.Millisecond)
			if r := string(w.RefusalOf(six)); !strings.Contains(r, schemas.CodeKeyConflict) || strings.Contains(r, "secret") {
				t.Errorf("%s: refusal %s", when, r)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { w.Do(five) })
		time.Sleep(500 * time.Millisecond)
		conflict("while it runs")
		wg.Go(func() {
			if o := w.Do(five); o.Status != schemas.Succeeded {
				t.Errorf("the repeat: %s", o.Status)
			}
		})
		wg.Wait()
		conflict("afterwards")
		if o := w.Stored(five); o.Status != schemas.Succeeded || s.N() != 1 {
			t.Errorf("%s, %d executed", o.Status, s.N())
		}
		if a, e := w.Account("r"); a != 1 || e != 1 {
			t.Errorf("charged %d and %d", a, e)
		}
		w.Verify()
	})
}

// B55: a transient failure is never the answer to a later request; a permanent one is.
func TestB55ATransientFailureIsNeverStoredAsTheResult(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var good, bad worldtest.Seen
		w := worldtest.New(t, `  good: { function: good, effect: read, policies: [quick] }
  bad: { function: bad, effect: read, policies: [quick] }
`, map[string]function.Func{"good": failsFirst(&good, 1, 0), "bad": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			bad.Add(in)
			return nil, function.Permanent("NOT_FOUND", "there is no such thing")
		}})
		first := worldtest.Msg{Tool: "good", Run: "r", Key: "k"}
		second := worldtest.Msg{Tool: "bad", Run: "r", Key: "k"}
		for i := range 2 {
			if o := w.Do(first); o.Status != schemas.Succeeded || o.Repeated != (i > 0) {
				t.Errorf("%d: %s", i, o.Status)
			}
			if o := w.Do(second); o.Status != schemas.ToolError || o.Code() != "NOT_FOUND" || o.Repeated != (i > 0) {
				t.Errorf("%d: %s %s", i, o.Status, o.Code())
			}
		}
		if n, _ := w.Account("r"); n != 3 || good.N() != 2 || bad.N() != 1 {
			t.Errorf("charged %d, executed %d and %d", n, good.N(), bad.N())
		}
		w.Verify()
	})
}

// B56: retention counts from the end of a call, never from its beginning, and a
// retention shorter than a call may last is refused at start.
func TestB56AKeyOutlivesTheLongestWait(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, "  slow: { function: slow, effect: write, retry_safety: idempotent, policies: [quick] }\n", map[string]function.Func{"slow": failsFirst(&s, 1, 90*time.Second)})
		w.Stop()
		w.Config = strings.ReplaceAll(w.Config, "max_deadline: 2h", "max_deadline: 2m")
		w.Config = strings.ReplaceAll(w.Config, "max_deadline: 1m", "max_deadline: 2m")
		w.Config = strings.ReplaceAll(w.Config, "max_retry_after: 10s", "max_retry_after: 2m")
		tooShort := worldtest.ReplaceOnce(t, w.Config, "ledger: {", "ledger: { retention: 1m,")
		if _, err := config.Parse("test.yaml", []byte(tooShort), os.LookupEnv); err == nil || !strings.Contains(err.Error(), "retention") {
			t.Errorf("a retention below max_deadline: %v", err)
		}
		w.Config = worldtest.ReplaceOnce(t, w.Config, "ledger: {", "ledger: { retention: 2m,")
		w.Start()
		m := worldtest.Msg{Tool: "slow", Run: "r", Key: "k", Deadline: 2 * time.Minute}
		for _, pause := range []time.Duration{0, 70 * time.Second, 60 * time.Second, 100 * time.Second} {
			time.Sleep(pause)
			again := m
			w.Publish(again)
		}
		time.Sleep(5 * time.Second)
		if o := w.Stored(m); o == nil || o.Status != schemas.Succeeded || s.N() != 2 {
			t.Errorf("%+v after %d executions", o, s.N())
		}
		w.Verify()
	})
}

// gateWorld has a read whose dependency is taken for dead while down is set: its
// breaker opens at the first failure.
func gateWorld(t *testing.T, s *worldtest.Seen, down *atomic.Bool) *worldtest.World {
	return worldtest.New(t, `  look.up: { function: look, effect: read, dependency: api, concurrency: 4, policies: [quick, slow] }
dependencies: { api: { breaker: { consecutive: 1, ratio: 1, least: 1000, cooldown: 2m } } }
`, map[string]function.Func{"look": func(_ context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		if down.Load() {
			return nil, function.Transient("DOWN", "down", 5*time.Second)
		}
		return "ok", nil
	}})
}

// An `unavailable` outcome releases its key: the same request later is the next
// generation, charged anew. An old carrier that is delivered again is not a request.
func TestAReleasedKeyOpensTheNextGenerationForARequestOnly(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		var down atomic.Bool
		down.Store(true)
		w := gateWorld(t, &s, &down)
		// the acknowledgement of the first message is lost: it is delivered again at 30 s
		cut := &natstest.CutOn{Provider: w.Node, Match: natstest.Publishes("$JS.ACK."), N: 1, Kind: natstest.BeforeWrite}
		w.Stop()
		w.Provider = cut
		w.Start()
		if o := w.Do(worldtest.Msg{Tool: "look.up", Run: "opens", Key: "k", Deadline: 7 * time.Second}); o.Status != schemas.Exhausted {
			t.Fatalf("%s", o.Status)
		}
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k"}
		w.Publish(m)
		first := w.Outcome(m, 10*time.Second)
		if first.Status != schemas.Unavailable || first.Generation != 0 || first.Code() != schemas.CodeBreakerOpen || len(first.Attempts) != 0 {
			t.Fatalf("%s %s generation %d", first.Status, first.Code(), first.Generation)
		}
		time.Sleep(time.Second) // the connection is back
		// asked again through the endpoint, still unavailable: generation 1
		if o := w.Do(m); o.Status != schemas.Unavailable || o.Generation != 1 || o.Repeated {
			t.Errorf("asked again: %s generation %d", o.Status, o.Generation)
		}
		time.Sleep(40 * time.Second) // the old message comes back
		if !cut.Fired() {
			t.Fatal("no acknowledgement was lost")
		}
		if o := w.Stored(m); o.Generation != 1 {
			t.Errorf("the old message opened generation %d", o.Generation)
		}
		if n := w.Messages("TOLLGATE_CALLS", ">"); n != 0 {
			t.Errorf("%d messages left", n)
		}
		down.Store(false)
		time.Sleep(2 * time.Minute)
		if o := w.Do(m); o.Status != schemas.Succeeded || o.Generation != 2 {
			t.Errorf("after the cooldown: %s generation %d", o.Status, o.Generation)
		}
		other := m
		other.Body = `{"other":1}`
		if o := w.Do(other); o.Code() != schemas.CodeKeyConflict {
			t.Errorf("other arguments: %s", o.Code())
		}
		if n, _ := w.Account("r"); n != 1 {
			t.Errorf("charged %d", n)
		}
		w.Verify()
	})
}

// A released call that an operator moved to another run stays with its new payer.
func TestAReleasedKeyStaysWithTheRunThatPays(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		answer := atomic.Pointer[function.Error]{}
		w := worldtest.New(t, `  look.up: { function: look, effect: read, dependency: api, policies: [quick] }
dependencies: { api: { breaker: { consecutive: 1, ratio: 1, least: 1000, cooldown: 2m } } }
`, map[string]function.Func{"look": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			if e := answer.Load(); e != nil {
				return nil, e
			}
			return "ok", nil
		}})
		answer.Store(function.Stop(schemas.AuthExpired, "AUTH", "renew it"))
		m := worldtest.Msg{Tool: "look.up", Run: "old", Key: "k"}
		if o := w.Do(m); o.Status != schemas.Failed {
			t.Fatalf("%s", o.Status)
		}
		answer.Store(function.Transient("DOWN", "down", 0))
		w.Do(worldtest.Msg{Tool: "look.up", Run: "opens", Key: "k"})
		worldtest.Ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: worldtest.CallID(m), ReplayOptions: deadletter.ReplayOptions{NewRun: "new/repair"}})
		if o := w.Outcome(m, 5*time.Second, 1); o.Status != schemas.Unavailable || len(w.LettersOf("")) != 1 {
			t.Errorf("%s %s, letters %+v", o.Status, o.Code(), w.LettersOf(""))
		}
		answer.Store(nil)
		time.Sleep(2 * time.Minute)
		o := w.Do(m)
		if o.Status != schemas.Succeeded || o.Generation != 2 || o.Run != "new/repair" {
			t.Errorf("asked again: %s %s generation %d run %s", o.Status, o.Code(), o.Generation, o.Run)
		}
		for path, want := range map[string]int{"old": 1, "new": 1, "new/repair": 1} {
			if n, _ := w.Account(path); n != want {
				t.Errorf("%s: charged %d, want %d", path, n, want)
			}
		}
		if run := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "new"}); len(run.Accounts) != 2 {
			t.Errorf("accounts of the paying run: %+v", run.Accounts)
		}
		if l := w.LettersOf(""); len(l) != 0 {
			t.Errorf("still active: %+v", l)
		}
		w.Verify()
	})
}
