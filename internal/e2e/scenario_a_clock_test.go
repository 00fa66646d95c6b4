package e2e

import (
	"context"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B34: a deadline that has passed ends a call, whichever way it comes; it is not put
// back for another try.
func TestB34ACallWhoseDeadlineHasPassedEnds(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Busy(5*time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		late := worldtest.Msg{Tool: "look.up", Run: "late", Key: "k", Deadline: -time.Second}
		w.Publish(late)
		direct := worldtest.Msg{Tool: "look.up", Run: "direct", Key: "k", Deadline: -time.Second}
		waits := worldtest.Msg{Tool: "look.up", Run: "waits", Key: "k", Deadline: 30 * time.Second}
		w.Publish(waits)
		for m, o := range map[*worldtest.Msg]*schemas.Outcome{&late: w.Outcome(late, time.Second), &direct: w.Do(direct)} {
			if o.Code() != schemas.CodeCallDeadline || s.Of(*m) != 0 || len(o.Attempts) != 0 {
				t.Errorf("%s: %s %s after %d executions", m.Run, o.Status, o.Code(), s.Of(*m))
			}
			if a := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: m.Run}).Accounts[m.Run]; a.Attempts != 0 {
				t.Errorf("%s: charged %d", m.Run, a.Attempts)
			}
		}
		w.Until(time.Second, "the other waits for its retry", func() bool { return s.Of(waits) == 1 && w.Messages("TOLLGATE_CALLS") == 0 })
		w.Stop()
		time.Sleep(40 * time.Second) // nobody is there when the retry is due
		w.Start()
		o := w.Outcome(waits, 5*time.Second)
		w.Drained(5 * time.Second)
		if o.Code() != schemas.CodeCallDeadline || s.Of(waits) != 1 || len(o.Attempts) != 1 {
			t.Errorf("waits: %s %s after %d executions", o.Status, o.Code(), s.Of(waits))
		}
		w.Charged("waits", 1, 0)
		if p := w.Letters(deadletter.Filter{Reason: schemas.ReasonExhaustedElapsedTime, Code: schemas.CodeCallDeadline}); p.Total != 3 {
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
			var s worldtest.Seen
			var given time.Duration
			tool := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
				s.Add(in)
				end, _ := ctx.Deadline()
				given = time.Until(end)
				return "ok", nil
			}
			worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": tool}, func(t *testing.T, w *worldtest.World) {
				w.Again(func() {
					w.Config = worldtest.ReplaceOnce(t, w.Config, "limits: {", "limits: { skew: "+c.skew+",")
				})
				begin := time.Now()
				m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: 3*time.Second - 4*time.Second, Header: map[string]string{schemas.HeaderPolicy: "slow"}}
				w.Publish(m)
				o := w.Outcome(m, 5*time.Second)
				if s.N() != c.runs || (c.runs == 0) != (o.Code() == schemas.CodeCallDeadline) || (c.runs == 1) != (o.Status == schemas.Succeeded) {
					t.Errorf("%s %s after %d executions", o.Status, o.Code(), s.N())
				}
				if c.runs == 1 && (given > 4*time.Second || o.Timing.Deadline.Sub(begin).Round(100*time.Millisecond) != 4*time.Second) {
					t.Errorf("given %s, until %s", given, o.Timing.Deadline.Sub(begin))
				}
				if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); st.ClockOffsetMS != 0 {
					t.Errorf("one clock, and an offset of %d ms is reported", st.ClockOffsetMS)
				}
			})
		})
	}
}
