package e2e

import (
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const writeAndRead = `  send.mail: { function: tool, effect: write, concurrency: 3, policies: [slow] }
  look.up: { function: tool, effect: read, concurrency: 3, policies: [slow] }
`

// B06: the process dies after the result is recorded and before the acknowledgement
// leaves. The redelivery is answered from the ledger.
func TestB06AnAckLostInACrashIsAnsweredFromTheLedger(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(nil)}, func(t *testing.T, w *world) {
		ack := w.cut("$JS.ACK.", 1, natstest.BeforeWrite)
		m := msg{tool: "send.mail", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		w.crashAt(ack, 5*time.Second)
		if w.messages("TOLLGATE_CALLS") != 1 {
			t.Fatal("the message was acknowledged: this is not the window")
		}
		w.start()
		w.drained(40 * time.Second)
		o := w.outcome(m, time.Second)
		if o.Status != schemas.Succeeded || s.n() != 1 || len(o.Attempts) != 1 || o.Generation != 0 {
			t.Errorf("%s after %d executions: %+v", o.Status, s.n(), o.Attempts)
		}
		w.charged("r", 1, 1)
		if p := w.letters(deadletter.Filter{State: "all"}); p.Total != 0 {
			t.Errorf("letters: %+v", p)
		}
		w.verify()
	})
}

// B06: what a process acknowledged and had no time to remove is no backlog of the
// next one.
func TestB06WhatWasAcknowledgedBeforeACrashLeavesTheStream(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(nil)}, func(t *testing.T, w *world) {
		w.again(func() {})
		time.Sleep(time.Second) // past the trim at the start
		w.publish(msg{tool: "send.mail", run: "r", key: "k", deadline: time.Hour})
		w.until(50*time.Millisecond, "the acknowledgement", func() bool { return w.consumer("TOLLGATE_CALLS", "calls-send=2Email").AckFloor.Stream == 1 })
		if w.messages("TOLLGATE_CALLS") != 1 {
			t.Fatal("the message is removed: this is not the window")
		}
		w.crash()
		w.start()
		w.drained(time.Second)
		if s.n() != 1 {
			t.Errorf("%d executions", s.n())
		}
	})
}

// B08: the process dies between publishing the retry and acknowledging the original.
func TestB08ACrashBetweenRepublishAndAckMakesNoSecondCopy(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(busy(3*time.Second), nil)}, func(t *testing.T, w *world) {
		w.ackWait = 2 * time.Second
		ack := w.cut("$JS.ACK.", 1, natstest.BeforeWrite)
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		w.crashAt(ack, 2*time.Second)
		if w.messages("TOLLGATE_CALLS") != 1 || w.messages("TOLLGATE_RETRY") != 1 {
			t.Fatalf("not the window: %d originals, %d copies", w.messages("TOLLGATE_CALLS"), w.messages("TOLLGATE_RETRY"))
		}
		w.start()
		w.until(10*time.Second, "settling of the original", func() bool {
			if n := w.messages("TOLLGATE_RETRY"); n > 1 {
				t.Fatalf("%d copies wait", n)
			}
			return w.messages("TOLLGATE_CALLS") == 0
		})
		o := w.outcome(m, 10*time.Second)
		w.drained(5 * time.Second)
		time.Sleep(time.Minute)
		if o.Status != schemas.Succeeded || s.n() != 2 || len(o.Attempts) != 2 {
			t.Errorf("%s after %d executions, attempts %+v", o.Status, s.n(), o.Attempts)
		}
		if gap := s.at[1].Sub(s.at[0]); gap < 3*time.Second {
			t.Errorf("the retry came after %s", gap)
		}
		w.charged("r", 2, 0)
		w.verify()
	})
}

// B09: a wait survives kill -9, and at no moment is the call nowhere.
func TestB09ADelayedRetryIsNotLostOnRestart(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(busy(20*time.Second), nil)}, func(t *testing.T, w *world) {
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		watch := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if w.inside() == 0 && s.n() < 2 {
					t.Fatalf("I12: no stream holds the call after %s", time.Since(s.at[0]))
				}
			}
		}
		watch(5 * time.Second)
		w.crash()
		watch(3 * time.Second)
		w.start()
		watch(17 * time.Second)
		o := w.outcome(m, 20*time.Second)
		if gap := s.at[1].Sub(s.at[0]); s.n() != 2 || len(o.Attempts) != 2 || gap < 20*time.Second || gap > 24500*time.Millisecond {
			t.Errorf("%d executions, %s apart", s.n(), gap)
		}
		w.drained(5 * time.Second)
		w.charged("r", 2, 0)
	})
}

// B10: a retry's wait has nothing to do with the ack wait.
func TestB10ADelayLongerThanTheAckWaitDoesNotMultiply(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(busy(20*time.Second), nil)}, func(t *testing.T, w *world) {
		w.again(func() { w.ackWait = 5 * time.Second })
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		time.Sleep(10 * time.Second)
		if st := ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Waiting != 1 || w.messages("TOLLGATE_CALLS") != 0 {
			t.Errorf("%d waiting, %d originals", st.Waiting, w.messages("TOLLGATE_CALLS"))
		}
		o := w.outcome(m, 20*time.Second)
		time.Sleep(time.Minute)
		if s.n() != 2 || len(o.Attempts) != 2 || o.Status != schemas.Succeeded {
			t.Errorf("%s after %d executions", o.Status, s.n())
		}
		if c := w.consumer("TOLLGATE_RETRY", "calls-look=2Eup"); c.Delivered.Consumer != 1 {
			t.Errorf("the retry was delivered %d times", c.Delivered.Consumer)
		}
		w.drained(time.Second)
		w.charged("r", 2, 0)
	})
}
