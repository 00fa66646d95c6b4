package e2e

import (
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const writeAndRead = `  send.mail: { function: tool, effect: write, concurrency: 3, policies: [slow] }
  look.up: { function: tool, effect: read, concurrency: 3, policies: [slow] }
`

// B06: the process dies after the result is recorded and before the acknowledgement
// leaves. The redelivery is answered from the ledger.
func TestB06AnAckLostInACrashIsAnsweredFromTheLedger(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(nil)}, func(t *testing.T, w *worldtest.World) {
		ack := w.Cut("$JS.ACK.", 1, natstest.BeforeWrite)
		m := worldtest.Msg{Tool: "send.mail", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		w.CrashAt(ack, 5*time.Second)
		if w.Messages("TOLLGATE_CALLS") != 1 {
			t.Fatal("the message was acknowledged: this is not the window")
		}
		w.Start()
		w.Drained(40 * time.Second)
		o := w.Outcome(m, time.Second)
		if o.Status != schemas.Succeeded || s.N() != 1 || len(o.Attempts) != 1 || o.Generation != 0 {
			t.Errorf("%s after %d executions: %+v", o.Status, s.N(), o.Attempts)
		}
		w.Charged("r", 1, 1)
		if p := w.Letters(deadletter.Filter{State: "all"}); p.Total != 0 {
			t.Errorf("letters: %+v", p)
		}
		w.Verify()
	})
}

// B06: what a process acknowledged and had no time to remove is no backlog of the
// next one.
func TestB06WhatWasAcknowledgedBeforeACrashLeavesTheStream(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(nil)}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() {})
		time.Sleep(time.Second) // past the trim at the start
		w.Publish(worldtest.Msg{Tool: "send.mail", Run: "r", Key: "k", Deadline: time.Hour})
		w.Until(50*time.Millisecond, "the acknowledgement", func() bool { return w.Consumer("TOLLGATE_CALLS", "calls-send=2Email").AckFloor.Stream == 1 })
		if w.Messages("TOLLGATE_CALLS") != 1 {
			t.Fatal("the message is removed: this is not the window")
		}
		w.Crash()
		w.Start()
		w.Drained(time.Second)
		if s.N() != 1 {
			t.Errorf("%d executions", s.N())
		}
	})
}

// B08: the process dies between publishing the retry and acknowledging the original.
func TestB08ACrashBetweenRepublishAndAckMakesNoSecondCopy(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Busy(3*time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		w.AckWait = 2 * time.Second
		ack := w.Cut("$JS.ACK.", 1, natstest.BeforeWrite)
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		w.CrashAt(ack, 2*time.Second)
		if w.Messages("TOLLGATE_CALLS") != 1 || w.Messages("TOLLGATE_RETRY") != 1 {
			t.Fatalf("not the window: %d originals, %d copies", w.Messages("TOLLGATE_CALLS"), w.Messages("TOLLGATE_RETRY"))
		}
		w.Start()
		w.Until(10*time.Second, "settling of the original", func() bool {
			if n := w.Messages("TOLLGATE_RETRY"); n > 1 {
				t.Fatalf("%d copies wait", n)
			}
			return w.Messages("TOLLGATE_CALLS") == 0
		})
		o := w.Outcome(m, 10*time.Second)
		w.Drained(5 * time.Second)
		time.Sleep(time.Minute)
		if o.Status != schemas.Succeeded || s.N() != 2 || len(o.Attempts) != 2 {
			t.Errorf("%s after %d executions, attempts %+v", o.Status, s.N(), o.Attempts)
		}
		if gap := s.At[1].Sub(s.At[0]); gap < 3*time.Second {
			t.Errorf("the retry came after %s", gap)
		}
		w.Charged("r", 2, 0)
		w.Verify()
	})
}

// B09: a wait survives kill -9, and at no moment is the call nowhere.
func TestB09ADelayedRetryIsNotLostOnRestart(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Busy(20*time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		watch := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if w.Inside() == 0 && s.N() < 2 {
					t.Fatalf("I12: no stream holds the call after %s", time.Since(s.At[0]))
				}
			}
		}
		watch(5 * time.Second)
		w.Crash()
		watch(3 * time.Second)
		w.Start()
		watch(17 * time.Second)
		o := w.Outcome(m, 20*time.Second)
		if gap := s.At[1].Sub(s.At[0]); s.N() != 2 || len(o.Attempts) != 2 || gap < 20*time.Second || gap > 24500*time.Millisecond {
			t.Errorf("%d executions, %s apart", s.N(), gap)
		}
		w.Drained(5 * time.Second)
		w.Charged("r", 2, 0)
	})
}

// B10: a retry's wait has nothing to do with the ack wait.
func TestB10ADelayLongerThanTheAckWaitDoesNotMultiply(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Busy(20*time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() { w.AckWait = 5 * time.Second })
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		time.Sleep(10 * time.Second)
		if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Waiting != 1 || w.Messages("TOLLGATE_CALLS") != 0 {
			t.Errorf("%d waiting, %d originals", st.Waiting, w.Messages("TOLLGATE_CALLS"))
		}
		o := w.Outcome(m, 20*time.Second)
		time.Sleep(time.Minute)
		if s.N() != 2 || len(o.Attempts) != 2 || o.Status != schemas.Succeeded {
			t.Errorf("%s after %d executions", o.Status, s.N())
		}
		if c := w.Consumer("TOLLGATE_RETRY", "calls-look=2Eup"); c.Delivered.Consumer != 1 {
			t.Errorf("the retry was delivered %d times", c.Delivered.Consumer)
		}
		w.Drained(time.Second)
		w.Charged("r", 2, 0)
	})
}
