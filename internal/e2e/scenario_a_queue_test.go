package e2e

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B15: a wait is a message of its own, so waiting calls hold no ack-pending slot and
// keep nobody from new work.
func TestB15WaitingCallsHoldNoDelivery(t *testing.T) {
	var s seen
	var mended atomic.Bool
	tools := `  look.broken: { function: broken, effect: read, concurrency: 2, policies: [slow] }
  look.up: { function: ok, effect: read, concurrency: 2, policies: [slow] }
`
	bubble(t, tools, map[string]function.Func{
		"ok": s.script(nil),
		"broken": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.add(in)
			if mended.Load() {
				return "ok", nil
			}
			return nil, busy(time.Hour)
		},
	}, func(t *testing.T, w *world) {
		var waiting []msg
		for i := range 4 {
			waiting = append(waiting, msg{tool: "look.broken", run: "r", key: strconv.Itoa(i), deadline: 2 * time.Hour})
			w.publish(waiting[i])
		}
		w.until(10*time.Second, "all four wait", func() bool { return ask[control.Status](w, control.VerbStatus, control.Empty{}).Waiting == 4 })
		pending := func() (n int) {
			for _, stream := range []string{"TOLLGATE_CALLS", "TOLLGATE_RETRY"} {
				for _, tool := range []string{"calls-look=2Ebroken", "calls-look=2Eup"} {
					n += w.consumer(stream, tool).NumAckPending
				}
			}
			return n
		}
		w.until(time.Second, "no delivery is held", func() bool { return pending() == 0 })
		fifth := msg{tool: "look.up", run: "r", key: "5", deadline: time.Minute}
		w.publish(fifth)
		w.outcome(fifth, 2*time.Second)
		w.again(func() {})
		time.Sleep(10 * time.Minute)
		if pending() != 0 || w.messages("TOLLGATE_RETRY") != 4 || s.n() != 5 {
			t.Errorf("after a restart: %d pending, %d waiting, %d executions", pending(), w.messages("TOLLGATE_RETRY"), s.n())
		}
		mended.Store(true)
		time.Sleep(time.Until(s.at[0].Add(73 * time.Minute))) // the stated hour and a fifth
		for _, m := range waiting {
			if o := w.outcome(m, time.Minute); o.Status != schemas.Succeeded || s.of(m) != 2 {
				t.Errorf("%s: %s after %d executions", m.key, o.Status, s.of(m))
			}
		}
		w.verify()
	})
}

// B16: a slow tool's backlog holds neither another tool nor another tenant, and
// costs nothing while it waits.
func TestB16ASlowToolHoldsNobodyElse(t *testing.T) {
	var s seen
	var inFlight, most atomic.Int64
	tools := `  slow.one: { function: slow, effect: read, concurrency: 2, policies: [patient] }
  fast.one: { function: fast, effect: read, concurrency: 3, policies: [patient] }
tenants:
  a: { tools: ["*"] }
  b: { tools: ["*"] }
`
	bubble(t, tools, map[string]function.Func{
		"slow": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.add(in)
			most.Store(max(most.Load(), inFlight.Add(1)))
			defer inFlight.Add(-1)
			time.Sleep(30 * time.Second)
			return "ok", nil
		},
		"fast": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.add(in)
			time.Sleep(50 * time.Millisecond)
			return "ok", nil
		},
	}, func(t *testing.T, w *world) {
		var slow, fast []msg
		for i := range 20 {
			slow = append(slow, msg{tool: "slow.one", tenant: "a", run: "r", key: strconv.Itoa(i), deadline: time.Hour})
			w.publish(slow[i])
		}
		begin := time.Now()
		for i := range 10 {
			fast = append(fast, msg{tool: "fast.one", tenant: "b", run: "r", key: strconv.Itoa(i), deadline: time.Hour})
			w.publish(fast[i])
		}
		for _, m := range fast {
			w.outcome(m, 3*time.Second-time.Since(begin))
		}
		run := ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Tenant: "a", Run: "r"})
		if a := run.Accounts["r"]; a.Attempts != 2 || len(run.Holds) != 2 {
			t.Errorf("while 18 wait: %d attempts charged, holds %+v", a.Attempts, run.Holds)
		}
		time.Sleep(5 * time.Minute)
		for _, m := range slow {
			if o := w.outcome(m, 10*time.Second); len(o.Attempts) != 1 {
				t.Errorf("%s took %d attempts", m.key, len(o.Attempts))
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d at once", most.Load())
		}
		w.drained(5 * time.Second)
		w.verify()
	})
}

// B18: no order between calls: the one that failed comes after the one behind it.
func TestB18ACallBehindAFailedOneDoesNotWaitForIt(t *testing.T) {
	var s seen
	bubble(t, "  list.append: { function: tool, effect: write, retry_safety: idempotent, concurrency: 1, policies: [slow] }\n",
		map[string]function.Func{"tool": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.add(in) == 1 {
				return nil, busy(2 * time.Second)
			}
			return string(in.Arguments), nil
		}}, func(t *testing.T, w *world) {
			a := msg{tool: "list.append", run: "r", key: "k1", body: `{"v":"a"}`}
			b := msg{tool: "list.append", run: "r", key: "k2", body: `{"v":"b"}`}
			w.publish(a)
			w.publish(b)
			w.outcome(b, time.Second)
			w.outcome(a, 10*time.Second)
			var order []string
			for _, c := range s.calls {
				order = append(order, string(c.Arguments))
			}
			if len(order) != 3 || order[0] != a.body || order[1] != b.body || order[2] != a.body {
				t.Errorf("executed %v", order)
			}
			w.charged("r", 3, 3)
		})
}
