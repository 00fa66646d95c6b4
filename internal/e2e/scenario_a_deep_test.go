package e2e

import (
	"context"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B19, of the streams that hold the work: one that was deleted and made again is
// pulled from again, and what waited is woken from the ledger.
func TestB19AStreamThatIsMadeAgainIsServedAgain(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(busy(5*time.Second), nil)}, func(t *testing.T, w *world) {
		ctx := context.Background()
		waits := msg{tool: "look.up", run: "r", key: "waits", deadline: time.Hour}
		w.publish(waits)
		w.until(5*time.Second, "it waits", func() bool { return w.messages("TOLLGATE_RETRY") == 1 })
		for _, name := range []string{"TOLLGATE_CALLS", "TOLLGATE_RETRY"} {
			st, err := w.js.Stream(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			config := st.CachedInfo().Config
			if err := w.js.DeleteStream(ctx, name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if _, err := w.js.CreateStream(ctx, config); err != nil {
				t.Fatal(err)
			}
		}
		if o := w.outcome(waits, 90*time.Second); o.Status != schemas.Succeeded || s.of(waits) != 2 {
			t.Errorf("%s after %d executions", o.Status, s.of(waits))
		}
		fresh := msg{tool: "look.up", run: "r", key: "fresh", deadline: time.Hour}
		w.publish(fresh)
		if o := w.outcome(fresh, time.Minute); o.Status != schemas.Succeeded || s.of(fresh) != 2 {
			t.Errorf("%s after %d executions", o.Status, s.of(fresh))
		}
		w.charged("r", 4, 0)
	})
}

// B19, of a refused message: it has no record, so the message itself must stay.
func TestB19ARefusalWhoseLetterCannotBeStoredHoldsTheMessage(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(nil)}, func(t *testing.T, w *world) {
		ctx := context.Background()
		st, err := w.js.Stream(ctx, "TOLLGATE_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		config := st.CachedInfo().Config
		if err := w.js.DeleteStream(ctx, "TOLLGATE_DLQ"); err != nil {
			t.Fatal(err)
		}
		w.publish(msg{tool: "look.up", run: "r", key: "k", body: "not json"})
		time.Sleep(30 * time.Second)
		if w.messages("TOLLGATE_CALLS") != 1 {
			t.Fatal("the message is gone without a letter")
		}
		if _, err := w.js.CreateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		w.drained(35 * time.Second)
		if p := w.letters(deadletter.Filter{}); p.Total != 1 || p.Letters[0].Reason != schemas.ReasonMalformed || s.n() != 0 {
			t.Errorf("letters %+v", p)
		}
		if l := w.letter(w.letters(deadletter.Filter{}).Letters[0].ID); l.Arguments != "not json" {
			t.Errorf("body %q", l.Arguments)
		}
	})
}

// B26, of a replay that another run pays: once, and charged there, across a retry
// and a restart.
func TestB26AReplayIntoANewRunIsChargedThere(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(broken(), busy(5*time.Second), nil)}, func(t *testing.T, w *world) {
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour, header: map[string]string{schemas.HeaderRunAttempts: "1"}}
		w.publish(m)
		w.outcome(m, 5*time.Second)
		w.drained(5 * time.Second)
		w.replay(callID(m), deadletter.ReplayOptions{NewRun: "payer/child"})
		if f := w.refused(control.VerbReplay, control.ReplayQuery{ID: callID(m) + ".0", ReplayOptions: deadletter.ReplayOptions{NewRun: "other"}}); f.Code != 409 {
			t.Errorf("a second replay: %+v", f)
		}
		w.until(5*time.Second, "it waits", func() bool { return s.n() == 2 })
		w.crash()
		w.start()
		id := callID(m)
		var d control.CallDetail
		w.until(time.Minute, "it ends", func() bool {
			d = ask[control.CallDetail](w, control.VerbCallShow, control.IDQuery{ID: id})
			return d.Outcome != nil
		})
		if d.Outcome.Status != schemas.Succeeded || s.n() != 3 || d.Run != "payer/child" || d.Outcome.Generation != 1 {
			t.Errorf("%s after %d executions, paid by %s", d.Outcome.Status, s.n(), d.Run)
		}
		for _, in := range s.calls {
			if in.Key != s.calls[0].Key || in.Call != id {
				t.Errorf("I7: %+v", in)
			}
		}
		w.drained(10 * time.Second)
		w.charged("r", 1, 0)
		w.charged("payer/child", 2, 0)
		w.charged("payer", 2, 0)
		w.publish(m) // the agent asks again: it gets what the replay brought
		time.Sleep(2 * time.Second)
		if s.n() != 3 {
			t.Errorf("asking again executed it: %d", s.n())
		}
		w.verify()
	})
}

// B12, at every write: whichever publish of a call's life loses its connection or its
// confirmation, one outcome, one letter, the honest number of executions.
func TestB12NoLostWriteOfACallsLifeChangesItsEnd(t *testing.T) {
	for _, kind := range []natstest.Cut{natstest.BeforeWrite, natstest.AfterWrite} {
		for n := 1; ; n++ {
			fired := false
			var s seen
			bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(busy(time.Second), broken())}, func(t *testing.T, w *world) {
				w.ackWait = 5 * time.Second
				cut := &natstest.CutOn{Provider: w.node, N: n, Kind: kind}
				cut.Match = func(b []byte) bool {
					for _, p := range []string{"tollgate.sched.", "tollgate.retry.", "tollgate.dlq.", "tollgate.results.", "$JS.ACK."} {
						if natstest.Publishes(p)(b) {
							return true
						}
					}
					return false
				}
				w.again(func() { w.provider = cut })
				m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour}
				w.publish(m)
				o := w.outcome(m, 2*time.Minute)
				w.drained(2 * time.Minute)
				time.Sleep(time.Minute) // the connection is back, and nothing is owed
				if st := ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Owed != 0 {
					t.Errorf("kind %d, write %d: %d owed", kind, n, st.Owed)
				}
				if o.Status != schemas.Failed || s.n() != 2 || w.messages("TOLLGATE_DLQ") != 1 || w.messages("TOLLGATE_RESULTS") != 1 {
					t.Errorf("kind %d, write %d: %s after %d executions, %d letters", kind, n, o.Status, s.n(), w.messages("TOLLGATE_DLQ"))
				}
				w.charged("r", 2, 0)
				w.verify()
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
