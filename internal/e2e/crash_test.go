package e2e

import (
	"context"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const threeWrites = `  pay.keyed: { function: pay, effect: write, retry_safety: idempotency_key, key_retention: 24h, policies: [slow] }
  pay.never: { function: pay, effect: write, policies: [slow] }
  look.up: { function: pay, effect: read, policies: [slow] }
`

// B07, I2, I7, I12, I14: the process dies after the request was sent and before the
// reply was recorded. What may be repeated runs once more under the same key; what
// must not is an unknown outcome, resolved well before any key expires.
func TestB07ACrashBetweenEffectAndRecordNeverRepeatsAnUnsafeCall(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		byTool := map[string]*worldtest.Seen{"pay.keyed": {}, "pay.never": {}, "look.up": {}}
		w := worldtest.New(t, threeWrites, map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			if byTool[in.Tool].Add(in) == 1 {
				<-ctx.Done() // acted, and never answers
			}
			return map[string]any{"paid": in.Key}, nil
		}})
		var calls []worldtest.Msg
		for tool := range byTool {
			m := worldtest.Msg{Tool: tool, Run: "run-1", Key: "k-" + tool, Body: `{"cents":500}`, Deadline: time.Hour}
			w.Publish(m)
			calls = append(calls, m)
		}
		time.Sleep(500 * time.Millisecond)
		w.Crash()
		restart := time.Now()
		w.Start()
		for _, m := range calls {
			o := w.Outcome(m, 15*time.Second)
			s := byTool[m.Tool]
			if m.Tool == "pay.never" {
				if o.Status != schemas.UnknownOutcome || o.NextAction != schemas.Reconcile || s.N() != 1 {
					t.Errorf("%s: %s after %d executions", m.Tool, o.Status, s.N())
				}
				continue
			}
			if o.Status != schemas.Succeeded || s.N() != 2 || len(o.Attempts) != 2 {
				t.Errorf("%s: %s after %d executions, attempts %+v", m.Tool, o.Status, s.N(), o.Attempts)
			}
			if s.Calls[0].Key != s.Calls[1].Key || string(s.Calls[0].Arguments) != string(s.Calls[1].Arguments) {
				t.Errorf("%s: I7: the repeat differs: %+v", m.Tool, s.Calls)
			}
		}
		if d := time.Since(restart); d > 15*time.Second {
			t.Errorf("the orphans took %s to resolve", d)
		}
		run := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "run-1"})
		if a := run.Accounts["run-1"]; a.Attempts != 5 || a.Effects != 3 {
			t.Errorf("I4: charged %d attempts and %d side effects, want 5 and 3", a.Attempts, a.Effects)
		}
		w.Verify()
	})
}

// B09: a wait lives in the streams and the ledger, not in the process.
func TestI12AWaitingRetrySurvivesACrash(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, threeWrites, map[string]function.Func{"pay": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in) == 1 {
				return nil, function.Transient("BUSY", "busy", 20*time.Second)
			}
			return "ok", nil
		}})
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		time.Sleep(5 * time.Second)
		w.Crash()
		time.Sleep(3 * time.Second)
		w.Start()
		o := w.Outcome(m, time.Minute)
		if gap := s.At[1].Sub(s.At[0]); o.Status != schemas.Succeeded || s.N() != 2 || gap < 20*time.Second || gap > 25*time.Second {
			t.Errorf("%s, %d executions, %s apart", o.Status, s.N(), gap)
		}
		w.Verify()
	})
}

// B23: a call that kills the process is recovered three times and no more.
func TestB23ACallThatKillsTheProcessBecomesPoison(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  look.up: { function: look, effect: read, policies: [many] }
`, map[string]function.Func{"look": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		for n := range 4 { // executions before this round; the first may be over by now
			for s.N() == n && w.Stored(m) == nil {
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			w.Crash()
			w.Start()
		}
		o := w.Outcome(m, time.Minute)
		if o.Code() != schemas.CodePoison || s.N() != 4 {
			t.Errorf("%s %s after %d executions", o.Status, o.Code(), s.N())
		}
	})
}

// B06: the work is done and recorded, the acknowledgement is lost.
func TestI11ALostAckIsAnsweredFromTheLedger(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, threeWrites, map[string]function.Func{"pay": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			return "paid", nil
		}})
		m := worldtest.Msg{Tool: "pay.never", Run: "r", Key: "k", Deadline: time.Hour}
		cut := &natstest.CutOn{Provider: w.Node, Match: natstest.Publishes("$JS.ACK."), N: 1, Kind: natstest.BeforeWrite}
		w.Stop()
		w.Provider = cut
		w.Start()
		w.Publish(m)
		o := w.Outcome(m, 10*time.Second)
		time.Sleep(40 * time.Second) // past the ack wait: it is delivered again
		if !cut.Fired() || s.N() != 1 || o.Status != schemas.Succeeded {
			t.Errorf("fired %t, %d executions, %s", cut.Fired(), s.N(), o.Status)
		}
		st, err := w.JS.Stream(t.Context(), "TOLLGATE_CALLS")
		if err != nil {
			t.Fatal(err)
		}
		if n := st.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%d messages left on the stream", n)
		}
		w.Verify()
	})
}
