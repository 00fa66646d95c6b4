package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// A ledger file that is gone is never re-created by itself: that would run known
// calls again. --recover rebuilds it from the streams, and what may have run
// before is an unknown outcome for a tool that must not repeat it.
func TestI2ALostLedgerIsRecoveredWithoutRepeatingUnsafeCalls(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s seen
		fail := true
		w := newWorld(t, threeWrites, map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			s.add(in)
			if in.Tool == "pay.never" && fail {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return "paid", nil
		}})
		done := msg{tool: "pay.keyed", run: "r", key: "done", deadline: time.Hour}
		w.publish(done)
		before := w.outcome(done, 10*time.Second)
		dead := msg{tool: "pay.never", run: "r", key: "dead", deadline: time.Hour}
		w.publish(dead)
		w.outcome(dead, 30*time.Second)
		w.crash() // and with it goes a call that was claimed
		open := msg{tool: "pay.never", run: "r", key: "open", deadline: time.Hour}
		w.publish(open)
		ledger := filepath.Join(w.dir, ledgerName(w.crashes))
		if err := os.Remove(ledger); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second) // the dead process's term runs out
		if a, err := app.Start(t.Context(), w.options()); err == nil {
			a.Stop()
			t.Fatal("started with a ledger that is missing")
		} else if !strings.Contains(err.Error(), "recover") {
			t.Errorf("the refusal does not name the way out: %v", err)
		}
		if _, err := os.Stat(ledger); err == nil {
			t.Error("the refused start left an empty ledger behind")
		}
		fail = false
		w.recover = true
		w.start()
		if o := w.do(done); o.ID != before.ID || !o.Repeated {
			t.Errorf("a known outcome: %+v", o)
		}
		if o := w.outcome(open, time.Minute); o.Status != schemas.UnknownOutcome || o.Code() != schemas.CodeLedgerRecovered {
			t.Errorf("published before the ledger was lost: %s %s", o.Status, o.Code())
		}
		fresh := msg{tool: "pay.never", run: "r", key: "fresh", deadline: time.Hour}
		if o := w.do(fresh); o.Status != schemas.Succeeded {
			t.Errorf("published after it: %s %s", o.Status, o.Code())
		}
		if n, effects := w.account("r"); n != 3 || effects != 3 || s.n() != 3 {
			t.Errorf("charged %d attempts and %d side effects, executed %d; want 3 each", n, effects, s.n())
		}
		p := ask[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{})
		if p.Total != 2 {
			t.Errorf("letters after recovery: %+v", p.Letters)
		}
		w.verify()
	})
}
