package e2e

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// crash takes the dispatcher away as kill -9 does: its connection is gone, its
// running attempts answer nobody, and the next process finds the ledger file as it
// was at that instant. The old process's own copy never touches the new one.
func (w *world) crash() {
	w.t.Helper()
	w.app.Conn().Close()
	old := w.app
	w.t.Cleanup(func() {
		old.Stop()
		_ = old.Wait()
	})
	w.app = nil
	w.crashes++
	from, to := filepath.Join(w.dir, ledgerName(w.crashes-1)), filepath.Join(w.dir, ledgerName(w.crashes))
	copyFile(w.t, from, to)
	w.conf = replaceOnce(w.t, w.conf, strconv.Quote(from), strconv.Quote(to))
}

func ledgerName(n int) string {
	if n == 0 {
		return "ledger.db"
	}
	return "ledger" + strconv.Itoa(n) + ".db"
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

const threeWrites = `  pay.keyed: { function: pay, effect: write, retry_safety: idempotency_key, key_retention: 24h, policies: [slow] }
  pay.never: { function: pay, effect: write, policies: [slow] }
  look.up: { function: pay, effect: read, policies: [slow] }
`

// B07, I2, I7, I12, I14: the process dies after the request was sent and before the
// reply was recorded. What may be repeated runs once more under the same key; what
// must not is an unknown outcome, resolved well before any key expires.
func TestI2ACrashBetweenEffectAndRecordNeverRepeatsAnUnsafeCall(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		byTool := map[string]*seen{"pay.keyed": {}, "pay.never": {}, "look.up": {}}
		w := newWorld(t, threeWrites, map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			if byTool[in.Tool].add(in) == 1 {
				<-ctx.Done() // acted, and never answers
			}
			return map[string]any{"paid": in.Key}, nil
		}})
		var calls []msg
		for tool := range byTool {
			m := msg{tool: tool, run: "run-1", key: "k-" + tool, body: `{"cents":500}`, deadline: time.Hour}
			w.publish(m)
			calls = append(calls, m)
		}
		time.Sleep(500 * time.Millisecond)
		w.crash()
		restart := time.Now()
		w.start()
		for _, m := range calls {
			o := w.outcome(m, 15*time.Second)
			s := byTool[m.tool]
			if m.tool == "pay.never" {
				if o.Status != schemas.UnknownOutcome || o.NextAction != schemas.Reconcile || s.n() != 1 {
					t.Errorf("%s: %s after %d executions", m.tool, o.Status, s.n())
				}
				continue
			}
			if o.Status != schemas.Succeeded || s.n() != 2 || len(o.Attempts) != 2 {
				t.Errorf("%s: %s after %d executions, attempts %+v", m.tool, o.Status, s.n(), o.Attempts)
			}
			if s.calls[0].Key != s.calls[1].Key || string(s.calls[0].Arguments) != string(s.calls[1].Arguments) {
				t.Errorf("%s: I7: the repeat differs: %+v", m.tool, s.calls)
			}
		}
		if d := time.Since(restart); d > 15*time.Second {
			t.Errorf("the orphans took %s to resolve", d)
		}
		run := ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "run-1"})
		if a := run.Accounts["run-1"]; a.Attempts != 5 || a.Effects != 3 {
			t.Errorf("I4: charged %d attempts and %d side effects, want 5 and 3", a.Attempts, a.Effects)
		}
		w.verify()
	})
}

// verify asks the live system whether its invariants hold.
func (w *world) verify() {
	w.t.Helper()
	rep := ask[control.VerifyReport](w, control.VerbVerify, control.Empty{})
	if !rep.OK {
		w.t.Errorf("verify: %+v", rep.Checks)
	}
}

// B09: a wait lives in the streams and the ledger, not in the process.
func TestI12AWaitingRetrySurvivesACrash(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		w := newWorld(t, threeWrites, map[string]function.Func{"pay": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.add(in) == 1 {
				return nil, function.Transient("BUSY", "busy", 20*time.Second)
			}
			return "ok", nil
		}})
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		time.Sleep(5 * time.Second)
		w.crash()
		time.Sleep(3 * time.Second)
		w.start()
		o := w.outcome(m, time.Minute)
		if gap := s.at[1].Sub(s.at[0]); o.Status != schemas.Succeeded || s.n() != 2 || gap < 20*time.Second || gap > 25*time.Second {
			t.Errorf("%s, %d executions, %s apart", o.Status, s.n(), gap)
		}
		w.verify()
	})
}

// B23: a call that kills the process is recovered three times and no more.
func TestB23ACallThatKillsTheProcessBecomesPoison(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		w := newWorld(t, `  look.up: { function: look, effect: read, policies: [many] }
`, map[string]function.Func{"look": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			s.add(in)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		for range 4 {
			n := s.n()
			for s.n() == n && w.stored(m) == nil {
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			w.crash()
			w.start()
		}
		o := w.outcome(m, time.Minute)
		if o.Code() != schemas.CodePoison || s.n() != 4 {
			t.Errorf("%s %s after %d executions", o.Status, o.Code(), s.n())
		}
	})
}

// B06: the work is done and recorded, the acknowledgement is lost.
func TestI11ALostAckIsAnsweredFromTheLedger(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		w := newWorld(t, threeWrites, map[string]function.Func{"pay": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.add(in)
			return "paid", nil
		}})
		m := msg{tool: "pay.never", run: "r", key: "k", deadline: time.Hour}
		cut := &natstest.CutOn{Provider: w.node, Match: natstest.Publishes("$JS.ACK."), N: 1, Kind: natstest.BeforeWrite}
		w.stop()
		w.provider = cut
		w.start()
		w.publish(m)
		o := w.outcome(m, 10*time.Second)
		time.Sleep(40 * time.Second) // past the ack wait: it is delivered again
		if !cut.Fired() || s.n() != 1 || o.Status != schemas.Succeeded {
			t.Errorf("fired %t, %d executions, %s", cut.Fired(), s.n(), o.Status)
		}
		st, err := w.js.Stream(t.Context(), "TOLLGATE_CALLS")
		if err != nil {
			t.Fatal(err)
		}
		if n := st.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%d messages left on the stream", n)
		}
		w.verify()
	})
}
