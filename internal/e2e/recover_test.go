package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// A ledger file that is gone is never re-created by itself: that would run known
// calls again. --recover rebuilds it from the streams, and what may have run
// before is an unknown outcome for a tool that must not repeat it.
func TestI2ALostLedgerIsRecoveredWithoutRepeatingUnsafeCalls(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		fail := true
		w := worldtest.New(t, threeWrites, map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			if in.Tool == "pay.never" && fail {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return "paid", nil
		}})
		done := worldtest.Msg{Tool: "pay.keyed", Run: "r", Key: "done", Deadline: time.Hour}
		w.Publish(done)
		before := w.Outcome(done, 10*time.Second)
		dead := worldtest.Msg{Tool: "pay.never", Run: "r", Key: "dead", Deadline: time.Hour}
		w.Publish(dead)
		w.Outcome(dead, 30*time.Second)
		w.Crash() // and with it goes a call that was claimed
		open := worldtest.Msg{Tool: "pay.never", Run: "r", Key: "open", Deadline: time.Hour}
		w.Publish(open)
		ledger := w.Ledger()
		if err := os.Remove(ledger); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second) // the dead process's term runs out
		if a, err := app.Start(t.Context(), w.Options()); err == nil {
			a.Stop()
			t.Fatal("started with a ledger that is missing")
		} else if !strings.Contains(err.Error(), "recover") {
			t.Errorf("the refusal does not name the way out: %v", err)
		}
		if _, err := os.Stat(ledger); err == nil {
			t.Error("the refused start left an empty ledger behind")
		}
		fail = false
		w.Recover = true
		w.Start()
		if o := w.Do(done); o.ID != before.ID || !o.Repeated {
			t.Errorf("a known outcome: %+v", o)
		}
		if o := w.Outcome(open, time.Minute); o.Status != schemas.UnknownOutcome || o.Code() != schemas.CodeLedgerRecovered {
			t.Errorf("published before the ledger was lost: %s %s", o.Status, o.Code())
		}
		fresh := worldtest.Msg{Tool: "pay.never", Run: "r", Key: "fresh", Deadline: time.Hour}
		if o := w.Do(fresh); o.Status != schemas.Succeeded {
			t.Errorf("published after it: %s %s", o.Status, o.Code())
		}
		if n, effects := w.Account("r"); n != 3 || effects != 3 || s.N() != 3 {
			t.Errorf("charged %d attempts and %d side effects, executed %d; want 3 each", n, effects, s.N())
		}
		p := worldtest.Ask[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{})
		if p.Total != 2 {
			t.Errorf("letters after recovery: %+v", p.Letters)
		}
		w.Verify()
	})
}

// The calls of a run are recovered in any order; its time began with the first.
func TestI5ARecoveredRunHasNoMoreTimeThanItHad(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, threeWrites, map[string]function.Func{"pay": s.Script(nil)})
		began, used := time.Time{}, time.Time{}
		for n := range 30 {
			m := worldtest.Msg{Tool: "pay.keyed", Run: "r/child", Key: fmt.Sprint(n)}
			w.Publish(m)
			o := w.Outcome(m, 10*time.Second)
			if used = o.Timing.Settled; n == 0 {
				began = o.Timing.Published
			}
			time.Sleep(time.Minute)
		}
		before := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"})
		w.Crash()
		if err := os.Remove(w.Ledger()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second) // the dead process's term runs out
		w.Recover = true
		w.Start()
		after := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"})
		if !after.Started.Equal(began) || !after.Used.Equal(used) {
			t.Errorf("the run began at %s and was used last at %s, want %s and %s", after.Started, after.Used, began, used)
		}
		for _, path := range []string{"r", "r/child"} {
			if got, want := after.Accounts[path], before.Accounts[path]; !got.Limits.Deadline.Equal(want.Limits.Deadline) || got.Attempts != want.Attempts {
				t.Errorf("account %s is %+v, want %+v", path, got, want)
			}
		}
	})
}
