package console_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/internal/worldtest"
)

// A tool is paused and resumed on its page, with a reason; its calls wait meanwhile.
func TestAToolIsPausedOnItsPage(t *testing.T) {
	w := working(t)
	viewer := browse(t, w, control.Viewer)
	has(t, viewer.get("/tools/work.do"), `<button class="danger" disabled>Pause</button>`, "needs the role operator; you are viewer")

	viewer.post("/tools/work.do/pause", url.Values{"why": {"x"}}, http.StatusForbidden)

	b := browse(t, w, control.Operator)
	has(t, b.post("/tools/work.do/pause", url.Values{}, http.StatusBadRequest), "nothing was done")
	has(t, b.post("/tools/work.do/pause", url.Values{"why": {"<i>maintenance</i>"}}), "work.do is paused", "‖ paused", "&lt;i&gt;maintenance&lt;/i&gt;", ">Resume</button>")
	has(t, b.get("/tools?state=paused"), "work.do")
	has(t, b.get("/tools?state=serving"), "No tool matches")

	m := worldtest.Msg{Tool: "work.do", Run: "r", Key: "k"}
	w.Publish(m)
	time.Sleep(300 * time.Millisecond)
	if o := w.Stored(m); o != nil {
		t.Fatalf("a paused tool was called: %+v", o)
	}
	w.Until(10*time.Second, "the backlog", func() bool {
		return worldtest.Ask[control.ToolDetail](w, control.VerbToolShow, control.ToolQuery{Tool: "work.do"}).Backlog["calls"] == 1
	})
	has(t, b.post("/tools/work.do/resume", url.Values{"why": {"done"}}), "served again", "✓ serving")
	if o := w.Outcome(m, 20*time.Second); o.IsError {
		t.Errorf("after the pause it ended %+v", o)
	}
}

// What a tool's page says is what its calls met: its limits, and how the calls ended.
func TestAToolsPageSaysHowItsCallsEnd(t *testing.T) {
	w := working(t)
	dead := worldtest.Msg{Tool: "work.do", Run: "r", Key: "k1", Body: `{"mode":"fail"}`}
	w.Publish(dead)
	w.Do(worldtest.Msg{Tool: "work.do", Run: "r", Key: "k2"})
	o := w.Outcome(dead, 20*time.Second)
	w.Until(10*time.Second, "the letter", func() bool { return len(w.LettersOf("r")) == 1 })
	b := browse(t, w, control.Viewer)
	page := b.get("/tools/work.do")
	has(t, page, "repeating it changes nothing more", "4 attempts of at most 3 s each", "<code>/secret</code>", "opens after 5 failures in a row",
		"/calls?status=succeeded&amp;tool=work.do", o.Code(), "Its active dead letters (1)", "&#34;type&#34;: &#34;object&#34;")
	hasNot(t, page, "<script>alert")
	has(t, b.get("/tools?effect=read"), "No tool matches")
	b.get("/tools?tool=%5B", http.StatusBadRequest)
	b.get("/tools/no.such", http.StatusNotFound)
}
