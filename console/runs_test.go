package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/tools/function"
)

const workTools = `  work.do: { function: work, effect: write, retry_safety: idempotent, policies: [quick, slow], redact: [/secret], schema: { type: object } }
`

// work fails whenever the arguments say so.
func work(_ context.Context, in dispatcher.Invocation) (any, error) {
	if strings.Contains(string(in.Arguments), "fail") {
		return nil, errors.New("<script>alert('work')</script> does not work")
	}
	return map[string]any{"ok": true}, nil
}

func working(t *testing.T) *worldtest.World {
	t.Helper()
	return worldtest.New(t, workTools, map[string]function.Func{"work": work})
}

// Pages of the list fit together: whatever the order, every run is on one of them,
// and on one only.
func TestTheListOfRunsIsCompleteInEveryOrder(t *testing.T) {
	w := working(t)
	const n = 120
	for i := range n {
		w.Do(worldtest.Msg{Tool: "work.do", Run: fmt.Sprintf("run-%03d", i), Key: "k"})
	}
	b := browse(t, w, control.Viewer)
	link, next := regexp.MustCompile(`href="/runs/(run-\d+)"`), regexp.MustCompile(`href="([^"]*)" rel="next"`)
	for _, order := range []string{"", "?sort=left", "?run=run-0&state=open"} {
		seen := map[string]int{}
		for at := "/runs" + order; at != ""; {
			page := b.get(at)
			for _, m := range link.FindAllStringSubmatch(page, -1) {
				seen[m[1]]++
			}
			at = ""
			if m := next.FindStringSubmatch(page); m != nil {
				at = strings.ReplaceAll(m[1], "&amp;", "&")
			}
		}
		want := n
		if strings.Contains(order, "run-0") {
			want = 100
		}
		if len(seen) != want {
			t.Errorf("%q lists %d runs of %d", order, len(seen), want)
		}
		for run, times := range seen {
			if times != 1 {
				t.Errorf("%q lists %s %d times", order, run, times)
			}
		}
	}
	b.get("/runs?state=happy", http.StatusBadRequest)
	b.get("/runs?cursor=nonsense", http.StatusBadRequest)
}

// I3: what a run's page says of its budget is what its accounts were charged, and
// every charge is of a call that one can go to.
func TestARunsPageAddsUp(t *testing.T) {
	w := working(t)
	dead := worldtest.Msg{Tool: "work.do", Run: "r/child", Key: "k1", Body: `{"mode":"fail"}`}
	w.Publish(dead)
	o := w.Outcome(dead, 20*time.Second)
	for i := range 3 {
		w.Do(worldtest.Msg{Tool: "work.do", Run: "r", Key: fmt.Sprint("ok", i)})
	}
	w.Until(10*time.Second, "the letter", func() bool { return len(w.LettersOf("r")) == 1 })
	// Another run pays for the next generation: its attempts are not the first run's.
	w.Replay(w.LettersOf("r")[0].ID, deadletter.ReplayOptions{NewRun: "other", Why: "test"})
	w.Outcome(dead, 20*time.Second, 1)

	d := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r", Charges: true})
	if spent := d.Accounts["r"].Attempts; len(d.Charges) != spent || spent != len(o.Attempts)+3 {
		t.Errorf("%d charges are told of %d attempts; the calls made %d", len(d.Charges), spent, len(o.Attempts)+3)
	}
	other := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "other", Charges: true})
	if spent := other.Accounts["other"].Attempts; spent != len(other.Charges) || spent == 0 {
		t.Errorf("of the other run %d charges are told, and %d attempts are spent", len(other.Charges), spent)
	}
	page := browse(t, w, control.Viewer).get("/runs/r")
	has(t, page, "4 of 1000", "996 of 1000 attempts left", "/calls/"+o.Call, "r/child", `<details>`)
	hasNot(t, page, "no longer kept", "<script>alert")
}

// A grant is an admin's, is given a reason, and is on the page and in the audit.
func TestAGrantFromTheRunsPage(t *testing.T) {
	w := working(t)
	w.Do(worldtest.Msg{Tool: "work.do", Run: "r/a", Key: "k"})
	form := url.Values{"tenant": {"default"}, "account": {"r/a"}, "attempts": {"7"}, "elapsed": {"10m"}, "why": {"INC-412"}}

	operator := browse(t, w, control.Operator)
	has(t, operator.get("/runs/r"), `<button class="primary" disabled>Grant</button>`, "needs the role admin; you are operator")

	operator.post("/runs/r/grant", form, http.StatusForbidden)
	if got := w.Audit("grant"); len(got) != 1 || got[0].Allowed {
		t.Errorf("an operator has granted: %+v", got)
	}

	admin := browse(t, w, control.Admin)
	for field, value := range map[string]string{"why": "", "attempts": "many", "elapsed": "soon", "account": "another"} {
		wrong := url.Values{}
		for k, v := range form {
			wrong[k] = v
		}
		wrong.Set(field, value)
		has(t, admin.post("/runs/r/grant", wrong, http.StatusBadRequest), "nothing was done")
	}
	page := admin.post("/runs/r/grant", form)
	has(t, page, "Granted to r/a: 7 attempts", "1 of 1007", "INC-412", "+10 min 0 s")
	if d := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"}); d.Accounts["r"].Limits.Attempts != 1000 || d.Accounts["r/a"].Limits.Attempts != 1007 {
		t.Errorf("granted to another account than the one that was named: %+v", d.Accounts)
	}
	if got := w.Audit("grant"); len(got) == 0 || got[len(got)-1].By != "ann" || got[len(got)-1].Why != "INC-412" {
		t.Errorf("the audit says %+v", got)
	}
}

// B74: a run that is cancelled on its page executes nothing more; it is not cancelled
// before its name was typed.
func TestB74ACancellationFromTheRunsPage(t *testing.T) {
	w := working(t)
	w.Do(worldtest.Msg{Tool: "work.do", Run: "r/a", Key: "k"})
	b := browse(t, w, control.Operator)
	form := url.Values{"account": {"r/a"}, "typed": {"r"}, "why": {"<b>stop</b>"}}
	b.post("/runs/r/cancel", form, http.StatusBadRequest)
	if o := w.Do(worldtest.Msg{Tool: "work.do", Run: "r/a", Key: "k2"}); o.IsError {
		t.Fatalf("cancelled although it was not confirmed: %+v", o)
	}
	form.Set("typed", "r/a")
	has(t, b.post("/runs/r/cancel", form), "Cancelled r/a", "✗ cancelled", "&lt;b&gt;stop&lt;/b&gt;")
	if o := w.Do(worldtest.Msg{Tool: "work.do", Run: "r/a", Key: "k3"}); o.Status != "cancelled" {
		t.Errorf("a call of a cancelled run ended %s", o.Status)
	}
	if o := w.Do(worldtest.Msg{Tool: "work.do", Run: "r/b", Key: "k4"}); o.IsError {
		t.Errorf("a path beside the cancelled one was stopped: %+v", o)
	}
	has(t, b.get("/runs?state=cancelled"), `href="/runs/r"`, "at r/a")
	has(t, b.get("/runs?state=open"), "No run matches")

	// One that nobody knows yet is remembered as cancelled, and has no limits to tell.
	if _, err := w.Ctl.Cancel(t.Context(), "default", dispatcher.CancelRequest{Run: "unknown", Reason: "left"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/runs", "/runs/unknown"} {
		page := b.get(path)
		has(t, page, "✗ cancelled", "no limit yet")
		hasNot(t, page, "-92233")
	}
}
