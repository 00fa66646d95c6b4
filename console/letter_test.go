package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/schemas"
)

func (o *operators) state(id string) schemas.LetterState {
	o.t.Helper()
	return o.Letter(id).State
}

// One letter says what has happened, why, and what may be done about it; and each of
// these is done once, with who and why in the audit.
func TestALetterIsUnderstoodAndDecided(t *testing.T) {
	o, heal := operate(t, control.Admin)
	o.fail("r1", 3)
	all := o.LettersOf("r1")
	id, at := all[1].ID, "/dead/"+all[1].ID
	page := o.get(at + "?run=r1")
	o.has(page, "failed in a way that trying again does not mend", "Read the error, mend its cause", "NO_ORDER", "order 7 was not found", "What was decided, and why", `&#34;order&#34;: 7`,
		"/calls/"+all[1].Call, "/dead/"+all[0].ID+"?run=r1", "/dead/"+all[2].ID+"?run=r1", "g-")

	_, page = o.post(at+"/note", url.Values{"text": {"seen with INC-9"}})
	o.has(page, "The note is kept.", "seen with INC-9")
	_, page = o.post(at+"/discard", url.Values{"why": {"INC-9"}})
	if o.has(page, "Discarded.", "– discarded", "Restore"); o.state(id) != schemas.LetterDiscarded {
		t.Errorf("it is %s", o.state(id))
	}
	if code, page := o.post(at+"/discard", url.Values{}); code != http.StatusConflict || !strings.Contains(page, "it is discarded, not active") {
		t.Errorf("twice: %d %s", code, page)
	}
	o.post(at+"/restore", url.Values{"why": {"a mistake"}})
	heal()
	_, page = o.post(at+"/replay", url.Values{"why": {"INC-9 is over"}, "to": {at + "?run=r1"}})
	o.has(page, "It is being replayed.")
	o.Until(20*time.Second, "the replay", func() bool { return o.state(id) == schemas.LetterResolved })
	o.has(o.get(at), "✓ resolved", "there is nothing to decide")
	if a := o.audit("replay"); len(a) != 1 || a[0].By != "ann" || a[0].Why != "INC-9 is over" {
		t.Errorf("audit: %+v", a)
	}
}

// A word on an effect may carry its result, and a replay its payer; what cannot be read
// changes nothing.
func TestResolvingAndGrantingAreChecked(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 1)
	id := o.LettersOf("r1")[0].ID
	for form, q := range map[string]url.Values{
		"resolve": {"verdict": {"happened"}, "result": {"{"}}, "replay": {"grant_attempts": {"many"}}, "resolve ": {"verdict": {"perhaps"}}, "replay ": {"window": {"soon"}},
	} {
		if code, _ := o.post("/dead/"+id+"/"+strings.TrimSpace(form), q); code != http.StatusBadRequest || o.state(id) != schemas.LetterActive {
			t.Errorf("%s %v: %d, %s", form, q, code, o.state(id))
		}
	}
	if code, _ := o.post("/dead/"+id+"/resolve", url.Values{"verdict": {"happened"}, "result": {`{"order":7}`}, "why": {"seen in the shop"}}); code != http.StatusOK || o.state(id) != schemas.LetterResolved {
		t.Errorf("%d, %s", code, o.state(id))
	}
}

// What goes for good is typed, is an admin's, and is asked for twice while nobody has
// dealt with the letter.
func TestPurgingIsTyped(t *testing.T) {
	o, _ := operate(t, control.Admin)
	o.fail("r1", 1)
	id := o.LettersOf("r1")[0].ID
	code, page := o.post("/dead/"+id+"/purge", url.Values{"typed": {"yes"}})
	if o.has(page, "the ID to type is"); code != http.StatusBadRequest {
		t.Errorf("%d", code)
	}
	typed := url.Values{"typed": {id}, "why": {"GDPR-3"}}
	if code, _ := o.post("/dead/"+id+"/purge", typed); code != http.StatusConflict {
		t.Errorf("an active letter: %d", code)
	}
	typed.Set("active", "yes")
	if _, page = o.post("/dead/"+id+"/purge", typed); o.in("all") != 0 {
		t.Error("it is still there")
	}
	o.has(page, "is removed for good")
	if code, _ := o.answer(o.http.Get(o.base + "/dead/" + id)); code != http.StatusNotFound {
		t.Errorf("afterwards: %d", code)
	}
}
