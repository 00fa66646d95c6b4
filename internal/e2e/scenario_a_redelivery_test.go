package e2e

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// sleeping is a tool that takes its time and always succeeds.
func sleeping(s *worldtest.Seen, d time.Duration) function.Func {
	return func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		select {
		case <-time.After(d):
			return "done", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// B01: messages that were pulled and have to wait for a slot are signalled for like
// running ones, so none is delivered again while it waits here.
func TestB01ABufferedMessageIsNotDeliveredAgain(t *testing.T) {
	var s worldtest.Seen
	tools := "  send.mail: { function: tool, effect: write, concurrency: 3, policies: [patient] }\n"
	worldtest.Bubble(t, tools, map[string]function.Func{"tool": sleeping(&s, 10*time.Second)}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() { w.AckWait = 4 * time.Second })
		time.Sleep(time.Second) // the open pull asks for three
		var direct sync.WaitGroup
		for i := range 3 { // and the endpoint takes every slot
			direct.Go(func() { w.Do(worldtest.Msg{Tool: "send.mail", Run: "direct", Key: strconv.Itoa(i)}) })
		}
		time.Sleep(100 * time.Millisecond)
		var calls []worldtest.Msg
		for i := range 6 {
			calls = append(calls, worldtest.Msg{Tool: "send.mail", Run: "r", Key: strconv.Itoa(i), Deadline: 10 * time.Minute})
			w.Publish(calls[i])
			if i == 1 {
				time.Sleep(8 * time.Second) // two wait here, and the pull is still open
			}
		}
		direct.Wait()
		for _, m := range calls {
			if o := w.Outcome(m, time.Minute); o.Status != schemas.Succeeded || len(o.Attempts) != 1 || s.Of(m) != 1 {
				t.Errorf("%s: %s after %d executions", m.Key, o.Status, s.Of(m))
			}
		}
		w.Drained(10 * time.Second)
		if c := w.Consumer("TOLLGATE_CALLS", "calls-send=2Email"); c.Delivered.Consumer != 6 {
			t.Errorf("six messages were delivered %d times", c.Delivered.Consumer)
		}
		w.Charged("r", 6, 6)
		if p := w.Letters(deadletter.Filter{}); p.Total != 0 {
			t.Errorf("letters: %+v", p)
		}
	})
}

// B02: a call that takes longer than the ack wait is kept by signals.
func TestB02ASlowCallRunsOnce(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, "  send.mail: { function: tool, effect: write, concurrency: 2, policies: [patient] }\n", map[string]function.Func{"tool": sleeping(&s, 12*time.Second)}, func(t *testing.T, w *worldtest.World) {
		w.AckWait = 5 * time.Second
		signals := w.Count("+WPI")
		m := worldtest.Msg{Tool: "send.mail", Run: "r", Key: "k", Deadline: time.Minute}
		w.Publish(m)
		time.Sleep(11 * time.Second)
		c := w.Consumer("TOLLGATE_CALLS", "calls-send=2Email")
		if c.Delivered.Consumer != 1 || c.NumRedelivered != 0 || c.NumAckPending != 1 {
			t.Errorf("while it runs: delivered %d, redelivered %d, pending %d", c.Delivered.Consumer, c.NumRedelivered, c.NumAckPending)
		}
		if n := signals.Seen(); n < 6 { // every 5/3 s
			t.Errorf("%d signals in 11 s", n)
		}
		o := w.Outcome(m, 10*time.Second)
		w.Drained(time.Second)
		if o.Status != schemas.Succeeded || s.N() != 1 || w.Consumer("TOLLGATE_CALLS", "calls-send=2Email").Delivered.Consumer != 1 {
			t.Errorf("%s after %d executions", o.Status, s.N())
		}
		w.Charged("r", 1, 1)
	})
}

// B04: a handler that hangs and ignores cancellation loses its slot at its timeout
// and the grace, and its message is settled, not kept alive.
func TestB04AHungHandlerIsGivenUp(t *testing.T) {
	var s worldtest.Seen
	free := make(chan struct{})
	tool := func(_ context.Context, in dispatcher.Invocation) (any, error) {
		if s.Add(in) == 1 {
			<-free
		}
		return "sent", nil
	}
	var signals interface{ Seen() int }
	worldtest.Bubble(t, "  send.mail: { function: tool, effect: write, concurrency: 1, policies: [quick] }\n", map[string]function.Func{"tool": tool}, func(t *testing.T, w *worldtest.World) {
		free = make(chan struct{}) // of this bubble
		t.Cleanup(func() { close(free) })
		w.AckWait = 3 * time.Second
		signals = w.Count("+WPI")
		hung := worldtest.Msg{Tool: "send.mail", Run: "r", Key: "hung", Deadline: 10 * time.Second}
		next := worldtest.Msg{Tool: "send.mail", Run: "r", Key: "next", Deadline: 40 * time.Second}
		w.Publish(hung)
		time.Sleep(time.Millisecond)
		w.Publish(next)
		o := w.Outcome(hung, 6*time.Second)
		if o.Status != schemas.UnknownOutcome || len(o.Attempts) != 1 || o.Attempts[0].Code != schemas.CodeTimeout {
			t.Errorf("hung: %s, attempts %+v", o.Status, o.Attempts)
		}
		if o := w.Outcome(next, time.Second); o.Status != schemas.Succeeded {
			t.Errorf("the one behind it: %s", o.Status)
		}
		w.Drained(time.Second)
		n := signals.Seen()
		time.Sleep(time.Minute)
		if signals.Seen() != n {
			t.Error("signals go on for a message that is settled")
		}
		p := w.Letters(deadletter.Filter{Run: "r"})
		if p.Total != 1 || p.Letters[0].Reason != schemas.ReasonUnknownOutcome || s.N() != 2 {
			t.Errorf("letters %+v, %d executions", p, s.N())
		}
		if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Abandoned != 1 || st.Running != 0 {
			t.Errorf("status: %d abandoned, %d running", st.Abandoned, st.Running)
		}
	})
}
