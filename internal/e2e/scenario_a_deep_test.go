package e2e

import (
	"context"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B19, of the streams that hold the work: one that was deleted and made again is
// pulled from again, and what waited is woken from the ledger.
func TestB19AStreamThatIsMadeAgainIsServedAgain(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Busy(5*time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		ctx := context.Background()
		waits := worldtest.Msg{Tool: "look.up", Run: "r", Key: "waits", Deadline: time.Hour}
		w.Publish(waits)
		w.Until(5*time.Second, "it waits", func() bool { return w.Messages("TOLLGATE_RETRY") == 1 })
		for _, name := range []string{"TOLLGATE_CALLS", "TOLLGATE_RETRY"} {
			st, err := w.JS.Stream(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			config := st.CachedInfo().Config
			if err := w.JS.DeleteStream(ctx, name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if _, err := w.JS.CreateStream(ctx, config); err != nil {
				t.Fatal(err)
			}
		}
		if o := w.Outcome(waits, 90*time.Second); o.Status != schemas.Succeeded || s.Of(waits) != 2 {
			t.Errorf("%s after %d executions", o.Status, s.Of(waits))
		}
		fresh := worldtest.Msg{Tool: "look.up", Run: "r", Key: "fresh", Deadline: time.Hour}
		w.Publish(fresh)
		if o := w.Outcome(fresh, time.Minute); o.Status != schemas.Succeeded || s.Of(fresh) != 2 {
			t.Errorf("%s after %d executions", o.Status, s.Of(fresh))
		}
		w.Charged("r", 4, 0)
	})
}

// B19, of a refused message: it has no record, so the message itself must stay.
func TestB19ARefusalWhoseLetterCannotBeStoredHoldsTheMessage(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(nil)}, func(t *testing.T, w *worldtest.World) {
		ctx := context.Background()
		st, err := w.JS.Stream(ctx, "TOLLGATE_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		config := st.CachedInfo().Config
		if err := w.JS.DeleteStream(ctx, "TOLLGATE_DLQ"); err != nil {
			t.Fatal(err)
		}
		w.Publish(worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Body: "not json"})
		time.Sleep(30 * time.Second)
		if w.Messages("TOLLGATE_CALLS") != 1 {
			t.Fatal("the message is gone without a letter")
		}
		if _, err := w.JS.CreateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		w.Drained(35 * time.Second)
		if p := w.Letters(deadletter.Filter{}); p.Total != 1 || p.Letters[0].Reason != schemas.ReasonMalformed || s.N() != 0 {
			t.Errorf("letters %+v", p)
		}
		if l := w.Letter(w.Letters(deadletter.Filter{}).Letters[0].ID); l.Arguments != "not json" {
			t.Errorf("body %q", l.Arguments)
		}
	})
}

// B26, of a replay that another run pays: once, and charged there, across a retry
// and a restart.
func TestB26AReplayIntoANewRunIsChargedThere(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Broken(), worldtest.Busy(5*time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour, Header: map[string]string{schemas.HeaderRunAttempts: "1"}}
		w.Publish(m)
		w.Outcome(m, 5*time.Second)
		w.Drained(5 * time.Second)
		w.Replay(worldtest.CallID(m), deadletter.ReplayOptions{NewRun: "payer/child"})
		if f := w.Refused(control.VerbReplay, control.ReplayQuery{ID: worldtest.CallID(m) + ".0", ReplayOptions: deadletter.ReplayOptions{NewRun: "other"}}); f.Code != 409 {
			t.Errorf("a second replay: %+v", f)
		}
		w.Until(5*time.Second, "it waits", func() bool { return s.N() == 2 })
		w.Crash()
		w.Start()
		id := worldtest.CallID(m)
		var d control.CallDetail
		w.Until(time.Minute, "it ends", func() bool {
			d = worldtest.Ask[control.CallDetail](w, control.VerbCallShow, control.IDQuery{ID: id})
			return d.Outcome != nil
		})
		if d.Outcome.Status != schemas.Succeeded || s.N() != 3 || d.Run != "payer/child" || d.Outcome.Generation != 1 {
			t.Errorf("%s after %d executions, paid by %s", d.Outcome.Status, s.N(), d.Run)
		}
		for _, in := range s.Calls {
			if in.Key != s.Calls[0].Key || in.Call != id {
				t.Errorf("I7: %+v", in)
			}
		}
		w.Drained(10 * time.Second)
		w.Charged("r", 1, 0)
		w.Charged("payer/child", 2, 0)
		w.Charged("payer", 2, 0)
		w.Publish(m) // the agent asks again: it gets what the replay brought
		time.Sleep(2 * time.Second)
		if s.N() != 3 {
			t.Errorf("asking again executed it: %d", s.N())
		}
		w.Verify()
	})
}

// B12, at every write: whichever publish of a call's life loses its connection or its
// confirmation, one outcome, one letter, the honest number of executions.
func TestB12NoLostWriteOfACallsLifeChangesItsEnd(t *testing.T) {
	for _, kind := range []natstest.Cut{natstest.BeforeWrite, natstest.AfterWrite} {
		for n := 1; ; n++ {
			fired := false
			var s worldtest.Seen
			worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Busy(time.Second), worldtest.Broken())}, func(t *testing.T, w *worldtest.World) {
				w.AckWait = 5 * time.Second
				cut := &natstest.CutOn{Provider: w.Node, N: n, Kind: kind}
				cut.Match = func(b []byte) bool {
					for _, p := range []string{"tollgate.sched.", "tollgate.retry.", "tollgate.dlq.", "tollgate.results.", "$JS.ACK."} {
						if natstest.Publishes(p)(b) {
							return true
						}
					}
					return false
				}
				w.Again(func() { w.Provider = cut })
				m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
				w.Publish(m)
				o := w.Outcome(m, 2*time.Minute)
				w.Drained(2 * time.Minute)
				time.Sleep(time.Minute) // the connection is back, and nothing is owed
				if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Owed != 0 {
					t.Errorf("kind %d, write %d: %d owed", kind, n, st.Owed)
				}
				if o.Status != schemas.Failed || s.N() != 2 || w.Messages("TOLLGATE_DLQ") != 1 || w.Messages("TOLLGATE_RESULTS") != 1 {
					t.Errorf("kind %d, write %d: %s after %d executions, %d letters", kind, n, o.Status, s.N(), w.Messages("TOLLGATE_DLQ"))
				}
				w.Charged("r", 2, 0)
				w.Verify()
				fired = cut.Fired()
			})
			if !fired {
				break
			}
			if n > 20 {
				t.Fatal("the fault never stops")
			}
		}
	}
}
