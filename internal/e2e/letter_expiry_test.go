package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// letterWorld has three dead calls: one discarded, one replayed with success, and
// one nobody has dealt with. The ledger remembers for ten minutes.
func letterWorld(t *testing.T, f func(w *worldtest.World)) {
	tool := func(_ context.Context, in dispatcher.Invocation) (any, error) {
		if in.Generation == 0 {
			return nil, worldtest.Broken()
		}
		return "ok", nil
	}
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": tool}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() {
			w.Config = strings.ReplaceAll(w.Config, "max_deadline: 2h", "max_deadline: 10m")
			w.Config = worldtest.ReplaceOnce(t, w.Config, "ledger: {", "ledger: { retention: 10m,")
		})
		ids := map[string]string{}
		for _, key := range []string{"discarded", "replayed", "active"} {
			m := worldtest.Msg{Tool: "look.up", Run: "r", Key: key, Deadline: time.Minute}
			w.Publish(m)
			w.Outcome(m, time.Minute)
			ids[key] = dedupe.LetterID(worldtest.CallID(m), 0)
		}
		w.Drained(10 * time.Second)
		worldtest.Ask[control.Done](w, control.VerbDiscard, control.LetterQuery{ID: ids["discarded"], Why: "seen"})
		w.Replay(ids["replayed"], deadletter.ReplayOptions{})
		w.Until(time.Minute, "the replay succeeds", func() bool { return w.Letter(ids["replayed"]).State == schemas.LetterResolved })
		f(w)
		if p := w.Letters(deadletter.Filter{State: "all"}); p.Total != 1 || p.Letters[0].ID != ids["active"] || p.Letters[0].State != schemas.LetterActive {
			t.Errorf("what nobody has dealt with stays, and nothing else: %+v", p)
		}
		if n := len(w.Audit("expire")); n != 2 {
			t.Errorf("%d letters expired by the audit, want 2", n)
		}
		w.Verify()
	})
}

// Letters that were dealt with go, also from a dispatcher that never lives an hour,
// and verify agrees with it all the time.
func TestLettersDealtWithGoFromAShortLivedDispatcher(t *testing.T) {
	letterWorld(t, func(w *worldtest.World) {
		for range 12 {
			time.Sleep(3 * time.Minute)
			w.Verify()
			w.Again(func() {})
		}
		time.Sleep(2 * time.Minute)
	})
}

// A letter that was dealt with does not come to life again when the ledger has
// forgotten its call first.
func TestALetterDealtWithStaysSoWhenItsRecordIsGone(t *testing.T) {
	letterWorld(t, func(w *worldtest.World) {
		w.Stop()
		time.Sleep(time.Hour)
		w.Start()
		if p := w.Letters(deadletter.Filter{}); p.Total != 1 {
			w.T.Errorf("%d letters are active, want 1", p.Total)
		}
		time.Sleep(10 * time.Minute)
	})
}
