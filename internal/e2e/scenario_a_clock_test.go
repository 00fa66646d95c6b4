package e2e

import (
	"context"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B34: a deadline that has passed ends a call, whichever way it comes; it is not put
// back for another try.
func TestB34ACallWhoseDeadlineHasPassedEnds(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(busy(5*time.Second), nil)}, func(t *testing.T, w *world) {
		late := msg{tool: "look.up", run: "late", key: "k", deadline: -time.Second}
		w.publish(late)
		direct := msg{tool: "look.up", run: "direct", key: "k", deadline: -time.Second}
		waits := msg{tool: "look.up", run: "waits", key: "k", deadline: 30 * time.Second}
		w.publish(waits)
		for m, o := range map[*msg]*schemas.Outcome{&late: w.outcome(late, time.Second), &direct: w.do(direct)} {
			if o.Code() != schemas.CodeCallDeadline || s.of(*m) != 0 || len(o.Attempts) != 0 {
				t.Errorf("%s: %s %s after %d executions", m.run, o.Status, o.Code(), s.of(*m))
			}
			if a := ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: m.run}).Accounts[m.run]; a.Attempts != 0 {
				t.Errorf("%s: charged %d", m.run, a.Attempts)
			}
		}
		w.until(time.Second, "the other waits for its retry", func() bool { return s.of(waits) == 1 && w.messages("TOLLGATE_CALLS") == 0 })
		w.stop()
		time.Sleep(40 * time.Second) // nobody is there when the retry is due
		w.start()
		o := w.outcome(waits, 5*time.Second)
		w.drained(5 * time.Second)
		if o.Code() != schemas.CodeCallDeadline || s.of(waits) != 1 || len(o.Attempts) != 1 {
			t.Errorf("waits: %s %s after %d executions", o.Status, o.Code(), s.of(waits))
		}
		w.charged("waits", 1, 0)
		if p := w.letters(deadletter.Filter{Reason: schemas.ReasonExhaustedElapsedTime, Code: schemas.CodeCallDeadline}); p.Total != 3 {
			t.Errorf("%d letters", p.Total)
		}
	})
}

// B35: the publisher's clock is four seconds behind the dispatcher's. A deadline
// three seconds ahead of it has passed here, unless the allowance covers it.
func TestB35TheSkewAllowanceJudgesDeadlines(t *testing.T) {
	for _, c := range []struct {
		skew string
		runs int
	}{{"0s", 0}, {"5s", 1}} {
		t.Run(c.skew, func(t *testing.T) {
			var s seen
			var given time.Duration
			tool := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
				s.add(in)
				end, _ := ctx.Deadline()
				given = time.Until(end)
				return "ok", nil
			}
			bubble(t, writeAndRead, map[string]function.Func{"tool": tool}, func(t *testing.T, w *world) {
				w.again(func() {
					w.conf = replaceOnce(t, w.conf, "limits: {", "limits: { skew: "+c.skew+",")
				})
				begin := time.Now()
				m := msg{tool: "look.up", run: "r", key: "k", deadline: 3*time.Second - 4*time.Second, header: map[string]string{schemas.HeaderPolicy: "slow"}}
				w.publish(m)
				o := w.outcome(m, 5*time.Second)
				if s.n() != c.runs || (c.runs == 0) != (o.Code() == schemas.CodeCallDeadline) || (c.runs == 1) != (o.Status == schemas.Succeeded) {
					t.Errorf("%s %s after %d executions", o.Status, o.Code(), s.n())
				}
				if c.runs == 1 && (given > 4*time.Second || o.Timing.Deadline.Sub(begin).Round(100*time.Millisecond) != 4*time.Second) {
					t.Errorf("given %s, until %s", given, o.Timing.Deadline.Sub(begin))
				}
				if st := ask[control.Status](w, control.VerbStatus, control.Empty{}); st.ClockOffsetMS != 0 {
					t.Errorf("one clock, and an offset of %d ms is reported", st.ClockOffsetMS)
				}
			})
		})
	}
}
