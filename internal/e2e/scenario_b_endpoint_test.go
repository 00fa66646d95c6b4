package e2e

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
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

// sleeps takes d and succeeds.
func sleeps(s *worldtest.Seen, d time.Duration) function.Func {
	return func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		select {
		case <-time.After(d):
			return "ok", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// The endpoint waits in a bounded queue: what is beyond it is answered 503 at once,
// and nothing of it is accepted.
func TestTheEndpointsQueueIsBounded(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, "  work: { function: work, effect: write, concurrency: 1, policies: [quick] }\n", map[string]function.Func{"work": sleeps(&s, 2*time.Second)})
		w.Stop()
		w.Config = worldtest.ReplaceOnce(t, w.Config, "limits: {", "limits: { endpoint_queue: 2,")
		w.Start()
		var wg sync.WaitGroup
		var mu sync.Mutex
		ended := map[string]int{}
		for i := range 6 {
			wg.Go(func() {
				start := time.Now()
				o := w.Do(worldtest.Msg{Tool: "work", Run: "r", Key: strconv.Itoa(i)})
				mu.Lock()
				defer mu.Unlock()
				ended[string(o.Status)+" "+o.Code()]++
				if o.Status == schemas.Succeeded {
					return
				}
				if o.ServiceCode() != 503 || time.Since(start) > time.Second || strings.Contains(o.Error.Message, "malformed") {
					t.Errorf("%d after %s: %q", o.ServiceCode(), time.Since(start), o.Error.Message)
				}
			})
		}
		wg.Wait()
		if ended["succeeded "] != 3 || ended["rejected "+schemas.CodeQueueFull] != 3 || s.N() != 3 {
			t.Errorf("%v, %d executed", ended, s.N())
		}
		if a, e := w.Account("r"); a != 3 || e != 3 {
			t.Errorf("charged %d and %d", a, e)
		}
		if p := worldtest.Ask[control.CallsPage](w, control.VerbCallsList, control.CallsQuery{}); len(p.Calls) != 3 {
			t.Errorf("%d records", len(p.Calls))
		}
		// what was turned away is as if it had never been asked
		for i := range 6 {
			if o := w.Do(worldtest.Msg{Tool: "work", Run: "r", Key: strconv.Itoa(i)}); o.Status != schemas.Succeeded {
				t.Errorf("%d again: %s %s", i, o.Status, o.Code())
			}
		}
		w.Verify()
	})
}

// What cannot fit while it waits for a slot is told so, and nothing is charged.
func TestAnEndpointCallThatCannotWaitLongEnoughIsUnavailable(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, "  work: { function: work, effect: read, concurrency: 1, policies: [patient, quick] }\n", map[string]function.Func{"work": sleeps(&s, 30*time.Second)})
		w.Publish(worldtest.Msg{Tool: "work", Run: "r", Key: "long", Deadline: time.Hour})
		time.Sleep(time.Second)
		start := time.Now()
		o := w.Do(worldtest.Msg{Tool: "work", Run: "q", Key: "short", Deadline: 10 * time.Second, Header: map[string]string{schemas.HeaderPolicy: "quick"}})
		if d := time.Since(start); o.Status == schemas.Succeeded || o.ServiceCode() < 503 || d > 10*time.Second {
			t.Errorf("%s %s after %s", o.Status, o.Code(), d)
		}
		if n, _ := w.Account("q"); n != 0 || s.N() != 1 {
			t.Errorf("charged %d, executed %d", n, s.N())
		}
	})
}

// An answer must not land wherever an agent likes: a request whose reply subject is
// not one we answer on is ignored, and nothing is executed.
func TestAReplySubjectOutsideTheAllowedPrefixesIsIgnored(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		for i, reply := range []string{"tollgate.calls.default.look.up", "tollgate.audit.default.replay", "somewhere", "", "_INBOXES.x", "$KV.TOLLGATE_OWNER.ledger"} {
			n := worldtest.Msg{Tool: "look.up", Run: "r", Key: strconv.Itoa(i)}.Build()
			n.Subject, n.Reply = "tollgate.do.default.look.up", reply
			if err := w.NC.PublishMsg(n); err != nil {
				t.Fatal(err)
			}
			body, _ := json.Marshal(control.ToolQuery{Tool: "look.up"})
			if err := w.NC.PublishMsg(&nats.Msg{Subject: "tollgate.ctl.tools.pause", Reply: reply, Data: body}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		if n := w.Messages("TOLLGATE_CALLS", ">") + w.Messages("TOLLGATE_AUDIT", ">"); n != 0 || s.N() != 0 {
			t.Errorf("%d messages stored, %d executed", n, s.N())
		}
		if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); len(st.Paused) != 0 {
			t.Errorf("paused %v", st.Paused)
		}
		w.Stop()
		w.Config += "control: { reply_prefixes: [\"answers.\"] }\n"
		w.Start()
		sub, err := w.NC.SubscribeSync("answers.>")
		if err != nil {
			t.Fatal(err)
		}
		n := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k"}.Build()
		n.Subject, n.Reply = "tollgate.do.default.look.up", "answers.1"
		if err := w.NC.PublishMsg(n); err != nil {
			t.Fatal(err)
		}
		if m, err := sub.NextMsg(2 * time.Second); err != nil || m.Header.Get(schemas.HeaderServiceErrorCode) != "" {
			t.Errorf("the configured prefix: %v %+v", err, m)
		}
	})
}

// What only the dispatcher may say is taken out of an agent's message: it changes
// nothing and reaches neither the retry nor the letter.
func TestDispatcherOwnedHeadersFromAnAgentAreStripped(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		forged := map[string]string{
			schemas.HeaderCall: "forged", schemas.HeaderAttempt: "3", schemas.HeaderGeneration: "7", schemas.HeaderToken: "99", schemas.HeaderOwes: "1",
			schemas.HeaderSpentAttempts: "-50", schemas.HeaderOutcome: `{"v":1}`, schemas.HeaderReason: "none", schemas.HeaderLetter: "forged.0",
			"tollgate-ATTEMPT": "5", "Nats-Expected-Stream": "TOLLGATE_CALLS", "X-Own": "kept",
		}
		m := worldtest.Msg{Tool: "look.busy", Run: "r", Key: "k", Header: forged}
		w.Publish(m)
		o := w.Outcome(m, time.Minute)
		if o.Status != schemas.Exhausted || o.Generation != 0 || len(o.Attempts) != 4 || s.N() != 4 {
			t.Fatalf("%s generation %d after %d executions", o.Status, o.Generation, s.N())
		}
		for i, c := range s.Calls {
			if c.Attempt != i+1 || c.Call != worldtest.CallID(m) {
				t.Errorf("attempt %d: %+v", i+1, c)
			}
		}
		l := worldtest.Ask[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: o.Call})
		for name := range forged {
			if got := l.Header.Get(name); got != "" && name != "X-Own" {
				t.Errorf("the letter carries the agent's %s: %q", name, got)
			}
		}
		if l.Header.Get("X-Own") != "kept" || l.Outcome.ID != o.ID {
			t.Errorf("letter header %+v", l.Header)
		}
		w.Verify()
	})
}

// A header lowers a limit and never raises one: not above the policy, not above
// what was pinned, and never below what is spent.
func TestHeaderBudgetsOnlyLowerLimits(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, _ := budgetWorld(t)
		limits := func(run string) (attempts, effects int, deadline time.Time) {
			a := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: run}).Accounts[run]
			return a.Limits.Attempts, a.Limits.SideEffects, a.Limits.Deadline
		}
		call := func(run, key string, h map[string]string) *schemas.Outcome {
			return w.Do(worldtest.Msg{Tool: "send.mail", Run: run, Key: key, Header: h})
		}
		start := time.Now()
		far := start.Add(100 * time.Hour).UTC().Format(time.RFC3339Nano)
		call("high", "1", map[string]string{schemas.HeaderRunAttempts: "999999", schemas.HeaderRunSideEffects: "999999", schemas.HeaderRunDeadline: far})
		if a, e, d := limits("high"); a != 1000 || e != 1000 || d.Sub(start) > time.Hour+time.Second {
			t.Errorf("above the policy: %d, %d, %s", a, e, d.Sub(start))
		}
		call("r", "1", map[string]string{schemas.HeaderRunAttempts: "5"})
		call("r", "2", map[string]string{schemas.HeaderRunAttempts: "50", schemas.HeaderRunDeadline: far})
		if a, _, d := limits("r"); a != 5 || d.Sub(start) > time.Hour+time.Second {
			t.Errorf("raised: %d, %s", a, d.Sub(start))
		}
		call("r", "3", map[string]string{schemas.HeaderRunAttempts: "1"})
		if a, _, _ := limits("r"); a != 5 {
			t.Errorf("pinned by its first naming, now %d", a)
		}
		// a later first naming lowers, to no less than what is spent
		for i := range 3 {
			call("late", strconv.Itoa(i), nil)
		}
		if o := call("late", "3", map[string]string{schemas.HeaderRunAttempts: "1"}); o.Code() != schemas.CodeRunBudget {
			t.Errorf("below what is spent: %s %s", o.Status, o.Code())
		}
		if a, _, _ := limits("late"); a != 3 {
			t.Errorf("lowered to %d", a)
		}
		// the call's own deadline is cut by the policy, and a policy not on the list is malformed
		m := worldtest.Msg{Tool: "look.up", Run: "d", Key: "k", Deadline: 100 * time.Hour}
		if o := w.Do(m); time.Until(o.Timing.Deadline) > time.Minute {
			t.Errorf("deadline %s", o.Timing.Deadline)
		}
		if o := call("p", "1", map[string]string{schemas.HeaderPolicy: "many"}); o.Code() != schemas.CodeMalformed {
			t.Errorf("a policy that is not allowed: %s", o.Code())
		}
		w.Verify()
	})
}
