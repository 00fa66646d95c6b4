package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
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

const budgetTools = `  send.mail: { function: ok, effect: write, retry_safety: idempotent, concurrency: 8, policies: [quick, slow] }
  send.sms: { function: ok, effect: write, retry_safety: idempotent, concurrency: 8, policies: [quick] }
  look.up: { function: ok, effect: read, concurrency: 8, policies: [quick, slow] }
  look.busy: { function: busy, effect: read, policies: [quick, slow] }
`

func budgetWorld(t *testing.T) (*worldtest.World, *worldtest.Seen) {
	var s worldtest.Seen
	return worldtest.New(t, budgetTools, map[string]function.Func{
		"ok": func(_ context.Context, in dispatcher.Invocation) (any, error) { s.Add(in); return "done", nil },
		"busy": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			return nil, function.Transient("BUSY", "busy", 0)
		},
	}), &s
}

// Case 1 of the budget article, I3: parent and child share one allowance.
func TestCase1ParentAndChildDoNotEachGetAFreshAllowance(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		limit := map[string]string{schemas.HeaderRunAttempts: "3"}
		for i, run := range []string{"r", "r/child", "r/child/grand", "r/child", "r"} {
			o := w.Do(worldtest.Msg{Tool: "look.up", Run: run, Key: strconv.Itoa(i), Header: map[string]string{schemas.HeaderRunAttempts: "3"}})
			want := schemas.Succeeded
			if i >= 3 {
				want = schemas.Exhausted
			}
			if o.Status != want {
				t.Errorf("call %d of %s: %s %s", i, run, o.Status, o.Code())
			}
			if want == schemas.Exhausted && (o.Error.Scope != "r" || o.Error.Reason != "attempts" || o.Code() != schemas.CodeRunBudget) {
				t.Errorf("call %d: %+v", i, o.Error)
			}
		}
		if n, _ := w.Account("r"); n != 3 || s.N() != 3 {
			t.Errorf("charged %d, executed %d, limit %v", n, s.N(), limit)
		}
	})
}

// Case 2, I3, B45: siblings that start together cannot spend the same slot.
func TestB45SiblingsCannotSpendTheSameSideEffect(t *testing.T) {
	w, s := budgetWorld(t)
	for round := range 20 {
		run := fmt.Sprintf("run-%d", round)
		before := s.N()
		for i := range 9 {
			w.Do(worldtest.Msg{Tool: "send.mail", Run: run, Key: "spend" + strconv.Itoa(i), Header: map[string]string{schemas.HeaderRunSideEffects: "10"}})
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		ended := map[schemas.Status]int{}
		for i := range 5 {
			wg.Go(func() {
				o := w.Do(worldtest.Msg{Tool: "send.mail", Run: run, Key: "race" + strconv.Itoa(i)})
				mu.Lock()
				defer mu.Unlock()
				ended[o.Status]++
				if o.Status == schemas.Exhausted && o.Error.Reason != "side_effects" {
					t.Errorf("%+v", o.Error)
				}
			})
		}
		wg.Wait()
		if _, effects := w.Account(run); ended[schemas.Succeeded] != 1 || ended[schemas.Exhausted] != 4 || effects != 10 || s.N()-before != 10 {
			t.Fatalf("round %d: %v, %d side effects charged, %d executed", round, ended, effects, s.N()-before)
		}
	}
	w.Verify()
}

// Case 3, I5: backoff and queue waits consume the original time.
func TestCase3I5WaitsConsumeTheOriginalTime(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		m := worldtest.Msg{Tool: "look.busy", Run: "r", Key: "k", Deadline: time.Minute, Header: map[string]string{
			schemas.HeaderPolicy: "slow", schemas.HeaderRunDeadline: time.Now().Add(9 * time.Second).UTC().Format(time.RFC3339Nano)}}
		w.Publish(m)
		o := w.Outcome(m, time.Minute)
		if end := o.Timing.Settled.Sub(o.Timing.Published); o.Status != schemas.Exhausted || end > 9*time.Second {
			t.Errorf("%s %s after %s", o.Status, o.Code(), end)
		}
		for _, at := range s.At {
			if at.Add(3 * time.Second).After(o.Timing.Published.Add(9 * time.Second)) {
				t.Errorf("I5: an attempt started at %s, which could not end by the deadline", at.Sub(o.Timing.Published))
			}
		}
		// a queue wait: the tool is paused until no time is left
		worldtest.Ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "look.up"})
		q := worldtest.Msg{Tool: "look.up", Run: "q", Key: "k", Deadline: 20 * time.Second}
		w.Publish(q)
		if o := w.Outcome(q, time.Minute); o.Status == schemas.Succeeded || len(o.Attempts) != 0 {
			t.Errorf("paused: %s %s", o.Status, o.Code())
		}
	})
}

// failing answers with err the first time and succeeds after that.
func failing(s *worldtest.Seen, err error) map[string]function.Func {
	return map[string]function.Func{"pay": func(_ context.Context, in dispatcher.Invocation) (any, error) {
		if s.Add(in) == 1 {
			return nil, err
		}
		return "paid", nil
	}}
}

// Case 4, I8: a permanent or an unknown error stops without a retry.
func TestCase4APermanentOrUnknownErrorStops(t *testing.T) {
	for name, err := range map[string]error{"permanent": function.Permanent("NO_SUCH_CARD", "no such card"), "unknown": errors.New("no list has this")} {
		natstest.Bubble(t, func(t *testing.T) {
			var s worldtest.Seen
			w := worldtest.New(t, threeWrites, failing(&s, err))
			for _, tool := range []string{"pay.keyed", "look.up"} {
				s.Forget()
				o := w.Do(worldtest.Msg{Tool: tool, Run: "r", Key: tool})
				time.Sleep(time.Minute)
				if o.Status == schemas.Succeeded || s.N() != 1 || len(o.Attempts) != 1 {
					t.Errorf("%s error of %s: %s after %d executions", name, tool, o.Status, s.N())
				}
			}
		})
	}
}

// Case 5: a transient error of a mutation that is not idempotent stops as well.
func TestCase5ATransientErrorOfAnUnsafeMutationStops(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, threeWrites, failing(&s, function.Transient("BUSY", "busy", time.Second)))
		o := w.Do(worldtest.Msg{Tool: "pay.never", Run: "r", Key: "k"})
		time.Sleep(time.Minute)
		if o.Status != schemas.Failed || o.Code() != schemas.CodeUnsafeToRepeat || s.N() != 1 {
			t.Errorf("%s %s after %d executions", o.Status, o.Code(), s.N())
		}
	})
}

// Case 6, I7: every retry of a key-protected action reuses the first key and bytes.
func TestCase6EveryRetryReusesTheIdempotencyReference(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, threeWrites, failing(&s, function.Transient("BUSY", "busy", time.Second)))
		m := worldtest.Msg{Tool: "pay.keyed", Run: "r", Key: "k", Body: `{"b":1,  "a":2}`}
		w.Publish(m)
		time.Sleep(500 * time.Millisecond)
		w.Stop() // the wait is handed from one process to the next
		w.Start()
		o := w.Outcome(m, time.Minute)
		if o.Status != schemas.Succeeded || s.N() != 2 || s.Calls[0].Key != s.Calls[1].Key || string(s.Calls[1].Arguments) != m.Body {
			t.Errorf("%s, %d executions: %+v", o.Status, s.N(), s.Calls)
		}
	})
}

// Case 7, I14: an ambiguous mutation stays charged.
func TestCase7I14AnAmbiguousMutationIsChargedAndGoesToReconciliation(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := worldtest.New(t, threeWrites, map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		m := worldtest.Msg{Tool: "pay.never", Run: "r", Key: "k"}
		w.Publish(m)
		o := w.Outcome(m, 30*time.Second)
		attempts, effects := w.Account("r")
		if o.Status != schemas.UnknownOutcome || o.NextAction != schemas.Reconcile || attempts != 1 || effects != 1 {
			t.Errorf("%s %s, charged %d and %d", o.Status, o.NextAction, attempts, effects)
		}
		l := worldtest.Ask[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{Run: "r"})
		if len(l.Letters) != 1 || l.Letters[0].Reason != schemas.ReasonUnknownOutcome {
			t.Errorf("letters %+v", l)
		}
		w.Verify()
	})
}

// Case 8, I9: an exhausted dimension blocks whatever else is left, for new keys,
// tools, child paths; a read still runs when only side effects are used up.
func TestCase8I9OneExhaustedDimensionBlocksEveryDispatchChargedToIt(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		limit := map[string]string{schemas.HeaderRunSideEffects: "1"}
		if o := w.Do(worldtest.Msg{Tool: "send.mail", Run: "r", Key: "1", Header: limit}); o.Status != schemas.Succeeded {
			t.Fatal(o.Status)
		}
		for _, m := range []worldtest.Msg{
			{Tool: "send.mail", Run: "r", Key: "2"}, {Tool: "send.sms", Run: "r", Key: "1"},
			{Tool: "send.mail", Run: "r/child", Key: "c1"}, {Tool: "send.mail", Run: "r", Key: "3", Header: map[string]string{schemas.HeaderRunSideEffects: "50"}},
		} {
			o := w.Do(m)
			if o.Status != schemas.Exhausted || o.Error.Reason != "side_effects" || o.Error.Scope != "r" {
				t.Errorf("%+v: %s %+v", m, o.Status, o.Error)
			}
		}
		if o := w.Do(worldtest.Msg{Tool: "look.up", Run: "r", Key: "read"}); o.Status != schemas.Succeeded {
			t.Errorf("a read: %s %s", o.Status, o.Code())
		}
		if s.N() != 2 {
			t.Errorf("%d executed", s.N())
		}
	})
}

// Case 9, I10: a terminal outcome becomes another dispatch only by an audited
// replay; a hand-off or a resume that asks again gets the same outcome.
func TestCase9I10ATerminalOutcomeIsNotConvertedIntoAnotherCall(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		m := worldtest.Msg{Tool: "look.busy", Run: "r", Key: "k"}
		first := w.Do(m)
		if first.Status != schemas.Exhausted || first.Code() != schemas.CodeCallAttempts || s.N() != 4 {
			t.Fatalf("%s %s after %d", first.Status, first.Code(), s.N())
		}
		w.Publish(m)
		w.Stop()
		w.Start()
		w.Publish(m)
		if o := w.Do(m); o.ID != first.ID || !o.Repeated {
			t.Errorf("asked again: %+v", o)
		}
		time.Sleep(5 * time.Second)
		if s.N() != 4 {
			t.Errorf("%d executed", s.N())
		}
		audit, err := w.JS.Stream(t.Context(), "TOLLGATE_AUDIT")
		if err != nil {
			t.Fatal(err)
		}
		if n := audit.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%d audit entries before any replay", n)
		}
		worldtest.Ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: first.Call, ReplayOptions: deadletter.ReplayOptions{Why: "case 9"}})
		o := w.Outcome(m, 30*time.Second, 1)
		if o.Generation != 1 || s.N() != 8 {
			t.Errorf("replayed: generation %d, %d executed", o.Generation, s.N())
		}
		if info, err := audit.Info(t.Context()); err != nil || info.State.Msgs != 1 {
			t.Errorf("audit entries: %+v %v", info, err)
		}
		w.Verify()
	})
}

// B47: counters survive a restart; a replay pays; a grant raises the limit instead
// of resetting the counter.
func TestB47ARestartOrReplayNeverResetsTheBudget(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		m := worldtest.Msg{Tool: "look.busy", Run: "r", Key: "k", Header: map[string]string{schemas.HeaderRunAttempts: "5"}}
		first := w.Do(m) // four attempts
		w.Stop()
		w.Start()
		if n, _ := w.Account("r"); n != 4 || first.Status != schemas.Exhausted {
			t.Fatalf("after a restart: %d spent, %s", n, first.Status)
		}
		worldtest.Ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: first.Call})
		if o := w.Outcome(m, 30*time.Second, 1); o.Code() != schemas.CodeRunBudget || s.N() != 5 {
			t.Errorf("the replay is the fifth: %s, %d executed", o.Code(), s.N())
		}
		if o := w.Do(worldtest.Msg{Tool: "look.up", Run: "r", Key: "new"}); o.Code() != schemas.CodeRunBudget {
			t.Errorf("a new request: %s", o.Code())
		}
		d := worldtest.Ask[control.RunDetail](w, control.VerbRunGrant, control.GrantQuery{Run: "r", Attempts: 2, Why: "B47"})
		if a := d.Accounts["r"]; a.Attempts != 5 || a.Limits.Attempts != 7 || len(a.Grants) != 1 || a.Grants[0].By != "test" {
			t.Errorf("after the grant: %+v", a)
		}
		if o := w.Do(worldtest.Msg{Tool: "look.up", Run: "r", Key: "newer"}); o.Status != schemas.Succeeded {
			t.Errorf("after the grant: %s %s", o.Status, o.Code())
		}
		w.Verify()
	})
}
