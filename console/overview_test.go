package console_test

import (
	"testing"
	"time"

	"tollgate/control"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
)

// What somebody has to decide comes first, each with the way there.
func TestTheOverviewTellsWhatNeedsAttention(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		r := newReader(w, control.Viewer)
		inOrder(t, r.page("/"), "✓ Nothing", "✓ ready")
		call(w, worldtest.Msg{Tool: "pay.never", Run: "r", Key: "1", Body: `{"mode":"hang"}`})
		worldtest.Ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "look.up", Why: "a test"})
		time.Sleep(time.Second)
		inOrder(t, r.page("/"), "1 call has an unknown outcome", `href="/dead?reason=unknown_outcome"`, "look.up is paused", `href="/tools/look.up"`,
			"Dead letters</dt><dd><a href=\"/dead\">1</a>")
		hasNot(t, r.page("/"), "✓ Nothing")
		st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{})
		var kinds []string
		for _, a := range st.Attention {
			kinds = append(kinds, a.Kind)
		}
		if len(kinds) != 2 || kinds[0] != control.UnknownOutcomes {
			t.Errorf("%q", kinds)
		}
	})
}

// The history: every outcome is in the charts' figures, whatever the window, and what
// was before the start is said to be unknown.
func TestTheOverviewShowsHowItWent(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		r := newReader(w, control.Viewer)
		for _, key := range []string{"1", "2", "3"} {
			call(w, worldtest.Msg{Tool: "look.up", Run: "r", Key: key})
		}
		call(w, worldtest.Msg{Tool: "look.up", Run: "r", Key: "4", Body: `{"mode":"down"}`})
		time.Sleep(2 * time.Minute)
		page := r.page("/")
		inOrder(t, page, "75.0 %", "The dispatcher was started", "succeeded: at most", `class="before"`, `class="bar s-good"`, `class="bar s-warn"`, `class="line s-bad"`)
		h := worldtest.Ask[control.History](w, control.VerbHistory, control.HistoryQuery{Window: time.Hour})
		if n := h.Whole.Outcomes; n["succeeded"] != 3 || n["exhausted"] != 1 || h.Whole.Attempts != 7 || h.Whole.AttemptsFailed != 4 || h.Whole.Letters != 1 {
			t.Errorf("%+v", h.Whole)
		}
		time.Sleep(2 * time.Hour)
		for window, want := range map[string]int{"1h": 0, "6h": 4, "24h": 4} {
			d, _ := time.ParseDuration(window)
			if h := worldtest.Ask[control.History](w, control.VerbHistory, control.HistoryQuery{Window: d}); h.Whole.Total() != want || len(h.Points) > 123 {
				t.Errorf("%s: %d outcomes in %d steps", window, h.Whole.Total(), len(h.Points))
			}
			inOrder(t, r.page("/?window="+window), `aria-current="true">`+window)
		}
		hasNot(t, r.page("/?window=1h"), "The dispatcher was started")
	})
}

// A window or step that there cannot be is refused in words.
func TestAnImpossibleHistoryIsRefused(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		for _, q := range []control.HistoryQuery{{Window: 25 * time.Hour}, {Window: -1}, {Window: time.Hour, Step: time.Second}, {Window: 6 * time.Hour, Step: 10 * time.Second}} {
			if p := w.Refused(control.VerbHistory, q); p.Code != 400 {
				t.Errorf("%+v: %+v", q, p)
			}
		}
	})
}
