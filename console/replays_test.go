package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

func (o *operators) replays() []*dedupe.Replay {
	o.t.Helper()
	var p control.ReplaysPage
	if err := o.Ctl.Ask(o.t.Context(), control.VerbReplaysList, control.Empty{}, &p); err != nil {
		o.t.Fatal(err)
	}
	return p.Replays
}

// What is replayed is what was shown: a letter that died since is not in it, and a set
// that has changed is shown again.
func TestABulkReplayIsTheOneThatWasShown(t *testing.T) {
	o, heal := operate(t, control.Operator)
	o.has(o.get("/replays"), "No bulk replay", "tollgate dlq replay")
	o.fail("r1", 3)
	shown := o.get("/replay/new?run=r1")
	o.has(shown, "<strong>3</strong> of 3", "crm.upsert: the same tool, key and bytes", "each call's original window", "each call's own run", "100 a second", "Replay 3 dead letters")
	o.post("/dead/"+o.LettersOf("r1")[0].ID+"/discard", url.Values{})
	q := form(t, shown, "/replay/new")
	_, page := o.post("/replay/new", q)
	o.has(page, "have changed since they were shown; 2 would be replayed now", "Replay 2 dead letters")
	q = form(t, page, "/replay/new")
	o.fail("r1/later", 1)
	heal()
	q.Set("name", "crm-is-back")
	q.Set("why", "INC-9")
	_, page = o.post("/replay/new", q)
	o.has(page, "Replay crm-is-back is made: 2 letters")
	o.Until(20*time.Second, "the end of the replay", func() bool { return o.replays()[0].State == dedupe.ReplayDone })
	page = o.get("/replays/crm-is-back")
	o.has(page, "✓ done", "2 of 2", "✓ succeeded", "INC-9", "by ann", "run=r1")
	id := o.Letters(deadletter.Filter{State: "resolved", Limit: 1}).Letters[0].ID
	o.has(o.get("/replays/crm-is-back?only=succeeded"), id)
	o.has(o.get("/replays/crm-is-back?only=died_again"), "None of its letters is like that")
	if code, _ := o.answer(o.http.Get(o.base + "/replays/crm-is-back?only=some")); code != http.StatusBadRequest {
		t.Errorf("letters of no kind: %d", code)
	}
	if r := o.replays()[0]; r.Tally.Succeeded != 2 || o.in("active") != 1 {
		t.Errorf("%+v, %d active", r, o.in("active"))
	}
	o.has(o.get("/replays"), "crm-is-back", "✓ done")
}

// A form that is sent twice, at once or later, makes one replay, and both lead to it.
func TestAFormThatIsSentTwiceMakesOneReplay(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 40)
	q := form(t, o.get("/replay/new?run=r1&rate=5"), "/replay/new")
	pages := make([]string, 3)
	var wg sync.WaitGroup
	for i := range pages[:2] {
		wg.Go(func() { _, pages[i] = o.post("/replay/new", q) })
	}
	wg.Wait()
	_, pages[2] = o.post("/replay/new", q)
	if n := len(o.replays()); n != 1 {
		t.Errorf("%d replays", n)
	}
	for i, page := range pages {
		if !strings.Contains(page, "<h1>Replay r-") {
			t.Errorf("page %d:\n%s", i, page)
		}
	}
	o.get("/dead") // takes what the last form has left to say
	name := o.replays()[0].Name
	q.Set("at", time.Now().UTC().Format(time.RFC3339Nano)) // another page, which suggests the same by chance
	q.Set("set", form(t, o.get("/replay/new?run=r1&rate=5"), "/replay/new").Get("set"))
	if _, page := o.post("/replay/new", q); strings.Contains(page, "made already") || len(o.replays()) != 1 {
		t.Errorf("the name %s was taken:\n%s", name, page)
	}
}

// From a hundred letters on the number is typed, and a replay that is made can be held,
// gone on with, and ended, by whoever may and with a reason.
func TestAReplayIsHeldAndEnded(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 100)
	shown := o.get("/replay/new?run=r1&rate=2&canary=5&stop_above=50&name=slow")
	o.has(shown, "Type the number of letters, 100", "5 first")
	q := form(t, shown, "/replay/new")
	if _, page := o.post("/replay/new", q); len(o.replays()) != 0 {
		t.Error("made without the number")
	} else {
		o.has(page, "the number to type is 100")
	}
	q.Set("count", "100")
	_, page := o.post("/replay/new", q)
	o.has(page, "▶ running", "by itself when more than 50 % of the outcomes died again", "5 first", "2 a second")
	for _, step := range []struct {
		do, sign string
		state    dedupe.ReplayState
	}{{"pause", "❚❚ paused", dedupe.ReplayPaused}, {"resume", "▶ running", dedupe.ReplayRunning}, {"cancel", "✗ cancelled", dedupe.ReplayCancelled}} {
		_, page := o.post("/replays/slow/"+step.do, url.Values{"why": {"INC-9"}})
		o.has(page, step.sign, "ann: INC-9")
		if r := o.replays()[0]; r.State != step.state {
			t.Errorf("%s: it is %s", step.do, r.State)
		}
	}
	o.Until(20*time.Second, "outcomes", func() bool { return o.replays()[0].Tally.Open() == 0 })
	if r := o.replays()[0]; r.Tally.DiedAgain > 0 {
		o.has(o.get("/replays/slow"), "/dead/list?replay=slow")
		o.has(o.get("/dead/list?replay=slow&state=all"), "Died again in replay: slow")
	}
	if code, page := o.post("/replays/slow/pause", url.Values{}); code != http.StatusConflict {
		t.Errorf("%d %s", code, page)
	}
	o.as(control.Viewer)
	if code, _ := o.post("/replay/new", q); code != http.StatusForbidden || len(o.replays()) != 1 {
		t.Errorf("a viewer: %d", code)
	}
	if denied := o.audit("replays_create"); len(denied) == 0 || denied[0].Allowed {
		t.Errorf("the refusal is not in the audit: %+v", denied)
	}
}

// A form that is cut off is not taken for an empty one, and a reason that the audit could
// not hold is refused before anything is done.
func TestWhatIsTooLongDoesNothing(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 1)
	var page deadletter.Page
	if err := o.Ctl.Ask(t.Context(), control.VerbLetterList, deadletter.Filter{}, &page); err != nil || len(page.Letters) != 1 {
		t.Fatalf("%+v %v", page, err)
	}
	id := page.Letters[0].ID
	for _, n := range []int{5 << 10, 2 << 20, 9 << 20} {
		if code, _ := o.post("/dead/"+id+"/discard", url.Values{"why": {strings.Repeat("A", n)}}); code != http.StatusRequestEntityTooLarge || o.state(id) != schemas.LetterActive {
			t.Errorf("%d bytes: %d, %s", n, code, o.state(id))
		}
	}
}

// What was typed wrong is said beside what was typed.
func TestAReplayThatCannotBeIsNotMade(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 1)
	for q, want := range map[string]string{
		"rate=fast": "is not a number of letters a second", "canary=x": "canary", "stop_above=200": "is not a percentage", "window=soon": "is not a time",
		"name=a+b": "name", "error_re=%5B": "regular expression", "id=nonsense.0": "no such dead letter",
	} {
		code, page := o.answer(o.http.Get(o.base + "/replay/new?" + q))
		if code < 400 || code >= 500 || !strings.Contains(page, want) {
			t.Errorf("%s: %d, want %q\n%s", q, code, want, page)
		}
	}
	o.has(o.get("/replay/new?run=other"), "nothing to replay")
}
