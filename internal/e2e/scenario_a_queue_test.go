package e2e

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B15: a wait is a message of its own, so waiting calls hold no ack-pending slot and
// keep nobody from new work.
func TestB15WaitingCallsHoldNoDelivery(t *testing.T) {
	var s worldtest.Seen
	var mended atomic.Bool
	tools := `  look.broken: { function: broken, effect: read, concurrency: 2, policies: [slow] }
  look.up: { function: ok, effect: read, concurrency: 2, policies: [slow] }
`
	worldtest.Bubble(t, tools, map[string]function.Func{
		"ok": s.Script(nil),
		"broken": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			if mended.Load() {
				return "ok", nil
			}
			return nil, worldtest.Busy(time.Hour)
		},
	}, func(t *testing.T, w *worldtest.World) {
		var waiting []worldtest.Msg
		for i := range 4 {
			waiting = append(waiting, worldtest.Msg{Tool: "look.broken", Run: "r", Key: strconv.Itoa(i), Deadline: 2 * time.Hour})
			w.Publish(waiting[i])
		}
		w.Until(10*time.Second, "all four wait", func() bool { return worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}).Waiting == 4 })
		pending := func() (n int) {
			for _, stream := range []string{"TOLLGATE_CALLS", "TOLLGATE_RETRY"} {
				for _, tool := range []string{"calls-look=2Ebroken", "calls-look=2Eup"} {
					n += w.Consumer(stream, tool).NumAckPending
				}
			}
			return n
		}
		w.Until(time.Second, "no delivery is held", func() bool { return pending() == 0 })
		fifth := worldtest.Msg{Tool: "look.up", Run: "r", Key: "5", Deadline: time.Minute}
		w.Publish(fifth)
		w.Outcome(fifth, 2*time.Second)
		w.Again(func() {})
		time.Sleep(10 * time.Minute)
		if pending() != 0 || w.Messages("TOLLGATE_RETRY") != 4 || s.N() != 5 {
			t.Errorf("after a restart: %d pending, %d waiting, %d executions", pending(), w.Messages("TOLLGATE_RETRY"), s.N())
		}
		mended.Store(true)
		time.Sleep(time.Until(s.At[0].Add(73 * time.Minute))) // the stated hour and a fifth
		for _, m := range waiting {
			if o := w.Outcome(m, time.Minute); o.Status != schemas.Succeeded || s.Of(m) != 2 {
				t.Errorf("%s: %s after %d executions", m.Key, o.Status, s.Of(m))
			}
		}
		w.Verify()
	})
}

// B16: a slow tool's backlog holds neither another tool nor another tenant, and
// costs nothing while it waits.
func TestB16ASlowToolHoldsNobodyElse(t *testing.T) {
	var s worldtest.Seen
	var inFlight, most atomic.Int64
	tools := `  slow.one: { function: slow, effect: read, concurrency: 2, policies: [patient] }
  fast.one: { function: fast, effect: read, concurrency: 3, policies: [patient] }
tenants:
  a: { tools: ["*"] }
  b: { tools: ["*"] }
`
	worldtest.Bubble(t, tools, map[string]function.Func{
		"slow": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			most.Store(max(most.Load(), inFlight.Add(1)))
			defer inFlight.Add(-1)
			time.Sleep(30 * time.Second)
			return "ok", nil
		},
		"fast": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			time.Sleep(50 * time.Millisecond)
			return "ok", nil
		},
	}, func(t *testing.T, w *worldtest.World) {
		var slow, fast []worldtest.Msg
		for i := range 20 {
			slow = append(slow, worldtest.Msg{Tool: "slow.one", Tenant: "a", Run: "r", Key: strconv.Itoa(i), Deadline: time.Hour})
			w.Publish(slow[i])
		}
		begin := time.Now()
		for i := range 10 {
			fast = append(fast, worldtest.Msg{Tool: "fast.one", Tenant: "b", Run: "r", Key: strconv.Itoa(i), Deadline: time.Hour})
			w.Publish(fast[i])
		}
		for _, m := range fast {
			w.Outcome(m, 3*time.Second-time.Since(begin))
		}
		run := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Tenant: "a", Run: "r"})
		if a := run.Accounts["r"]; a.Attempts != 2 || len(run.Holds) != 2 {
			t.Errorf("while 18 wait: %d attempts charged, holds %+v", a.Attempts, run.Holds)
		}
		time.Sleep(5 * time.Minute)
		for _, m := range slow {
			if o := w.Outcome(m, 10*time.Second); len(o.Attempts) != 1 {
				t.Errorf("%s took %d attempts", m.Key, len(o.Attempts))
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d at once", most.Load())
		}
		w.Drained(5 * time.Second)
		w.Verify()
	})
}

// B18: no order between calls: the one that failed comes after the one behind it.
func TestB18ACallBehindAFailedOneDoesNotWaitForIt(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, "  list.append: { function: tool, effect: write, retry_safety: idempotent, concurrency: 1, policies: [slow] }\n",
		map[string]function.Func{"tool": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in) == 1 {
				return nil, worldtest.Busy(2 * time.Second)
			}
			return string(in.Arguments), nil
		}}, func(t *testing.T, w *worldtest.World) {
			a := worldtest.Msg{Tool: "list.append", Run: "r", Key: "k1", Body: `{"v":"a"}`}
			b := worldtest.Msg{Tool: "list.append", Run: "r", Key: "k2", Body: `{"v":"b"}`}
			w.Publish(a)
			w.Until(time.Second, "the first attempt", func() bool { return s.N() == 1 }) // which of two comes first is open
			w.Publish(b)
			w.Outcome(b, time.Second)
			w.Outcome(a, 10*time.Second)
			var order []string
			for _, c := range s.Calls {
				order = append(order, string(c.Arguments))
			}
			if len(order) != 3 || order[0] != a.Body || order[1] != b.Body || order[2] != a.Body {
				t.Errorf("executed %v", order)
			}
			w.Charged("r", 3, 3)
		})
}
