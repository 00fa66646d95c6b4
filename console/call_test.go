package console_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
)

// A dead call tells its whole story, with what it was asked, and hides what is redacted.
func TestACallTellsItsStory(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		r := newReader(w, control.Viewer)
		m := worldtest.Msg{Tool: "look.up", Run: "a/b", Key: "1", Body: `{"mode":"down","secret":"hunter2","n":12345678901234567890}`, Header: map[string]string{"Tollgate-Run-Attempts": "9"}}
		call(w, m)
		time.Sleep(time.Second)
		page := r.page("/calls/" + worldtest.CallID(m))
		inOrder(t, page, "✗ exhausted", `href="/runs/a`, "attempt 1 ✗ BUSY", "attempt 4 ✗ BUSY", "dead exhausted", "busy &lt;b&gt;now&lt;/b&gt;", "retry", "kept in the letter", "12345678901234567890",
			"Tollgate-Run-Attempts", "CALL_ATTEMPTS_EXHAUSTED", "4 attempts of this call were charged", "4 of 9, named by a message", "Its dead letter")
		hasNot(t, page, "hunter2", "Cancel it")
	})
}

// A waiting call's arguments are in the ledger, those of one that has succeeded are gone,
// and the page says so.
func TestArgumentsAreShownWhileTheyAreKept(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		r := newReader(w, control.Viewer)
		waits := worldtest.Msg{Tool: "slow.look", Run: "r", Key: "1", Body: `{"mode":"later"}`, Deadline: time.Hour}
		runs := worldtest.Msg{Tool: "slow.look", Run: "r", Key: "2", Body: `{"mode":"hang"}`, Deadline: time.Hour}
		done := worldtest.Msg{Tool: "look.up", Run: "r", Key: "3", Body: `{"mode":"fine"}`}
		w.Publish(waits)
		w.Publish(runs)
		call(w, done)
		time.Sleep(time.Second)
		inOrder(t, r.page("/calls/"+worldtest.CallID(waits)), "◷ waiting", "waits for its next attempt", "kept in the ledger", "later", "None yet")
		inOrder(t, r.page("/calls/"+worldtest.CallID(runs)), "▶ running", "attempt 1 runs", "kept in the stream", "hang")
		inOrder(t, r.page("/calls/"+worldtest.CallID(done)), "✓ succeeded", "not kept any more", "fine")
	})
}

// An operator cancels a waiting call and says why; a viewer may not.
func TestACallIsCancelledWithAReason(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := moodyWorld(t)
		m := worldtest.Msg{Tool: "slow.look", Run: "r", Key: "1", Body: `{"mode":"later"}`, Deadline: time.Hour}
		w.Publish(m)
		time.Sleep(time.Second)
		path := "/calls/" + worldtest.CallID(m)
		viewer, operator := newReader(w, control.Viewer), newReader(w, control.Operator)
		inOrder(t, viewer.page(path), "disabled", "needs the role operator; you are viewer")
		form := url.Values{"tenant": {"default"}, "why": {"the user left"}}
		if rec := viewer.do(http.MethodPost, path+"/cancel", form); rec.Code != http.StatusForbidden {
			t.Errorf("a viewer cancelled: %d", rec.Code)
		}
		if rec := operator.do(http.MethodPost, path+"/cancel", url.Values{}); rec.Code != http.StatusBadRequest || w.Stored(m) != nil {
			t.Errorf("cancelled without a reason: %d", rec.Code)
		}
		if rec := operator.do(http.MethodPost, path+"/cancel", form); rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != path {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		inOrder(t, operator.page(path), "Cancelled: nothing of it starts any more", "■ cancelled")
		if a := w.Audit("cancel"); len(a) != 2 || a[0].Allowed || !a[1].Allowed || a[1].By != "ann" || a[1].Why != "the user left" {
			t.Errorf("%+v", a)
		}
	})
}
