package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollgate/console"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"

	"github.com/rs/zerolog"
)

func (o *operators) in(state string) int {
	o.t.Helper()
	return o.Letters(deadletter.Filter{State: state}).Total
}

// What is done to many letters is what was shown: letters that die meanwhile stay, and a
// set that has changed is shown again.
func TestManyLettersAreDiscardedAsShown(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 4)
	shown := o.get("/dead/act?action=discard&scope=all&run=r1")
	o.has(shown, "Discard 4 dead letters", "<strong>4</strong>", "order 7 was not found")
	o.fail("r1/more", 1) // below r1, so the filter would take it
	q := form(t, shown, "/dead/act")
	q.Set("why", "INC-9")
	code, page := o.post("/dead/act", q)
	if o.has(page, "4 discarded."); code != http.StatusOK || o.in("discarded") != 4 || o.in("active") != 1 {
		t.Fatalf("%d, discarded %d, active %d", code, o.in("discarded"), o.in("active"))
	}
	if _, page = o.post("/dead/act", q); o.in("active") != 1 {
		t.Errorf("the same form again did something")
	}
	o.has(page, "4 were shown, and the set has 0 now")
	if a := o.audit("discard"); len(a) != 4 || a[0].By != "ann" || a[0].Why != "INC-9" {
		t.Errorf("audit: %+v", a)
	}
}

func (o *operators) audit(action string) []control.AuditEntry {
	o.t.Helper()
	o.Until(10*time.Second, "nothing is owed to the audit", func() bool {
		return worldtest.Ask[control.Status](o.World, control.VerbStatus, control.Empty{}).Owed == 0
	})
	var p control.AuditPage
	if err := o.Ctl.Ask(o.t.Context(), control.VerbAuditList, control.AuditQuery{Action: action}, &p); err != nil {
		o.t.Fatal(err)
	}
	return p.Entries
}

// Selected letters are acted on by their names, and what is refused is said with its why.
func TestSelectedLettersAreRestored(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 3)
	letters := o.LettersOf("r1")
	if code, page := o.answer(o.http.Get(o.base + "/dead/act?scope=selected&action=discard")); code != http.StatusBadRequest || !strings.Contains(page, "no letter is selected") {
		t.Errorf("%d %s", code, page)
	}
	pick := url.Values{"scope": {"selected"}, "action": {"discard"}, "run": {"r1"}, "id": {letters[0].ID, letters[1].ID}}
	_, page := o.post("/dead/act", form(t, o.get("/dead/act?"+pick.Encode()), "/dead/act"))
	if o.has(page, "2 discarded."); o.in("discarded") != 2 {
		t.Fatalf("%d are discarded", o.in("discarded"))
	}
	pick.Set("action", "restore")
	pick["id"] = []string{letters[0].ID, letters[2].ID}
	_, page = o.post("/dead/act", form(t, o.get("/dead/act?"+pick.Encode()), "/dead/act"))
	if o.has(page, "1 restored. 1 not: it is active, not discarded."); o.in("discarded") != 1 {
		t.Errorf("%d are discarded", o.in("discarded"))
	}
}

// From a hundred on, and for a word on effects always, the number is typed.
func TestTheNumberIsTypedForManyAndForUnsafe(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 100)
	shown := o.get("/dead/act?action=discard&run=r1")
	q := form(t, shown, "/dead/act")
	if o.has(shown, "Type the number of letters, 100, to confirm"); q.Get("count") != "" {
		t.Error("the number is filled in")
	}
	if _, page := o.post("/dead/act", q); o.in("active") != 100 {
		t.Error("discarded without the number")
	} else {
		o.has(page, "the number to type is 100")
	}
	q.Set("count", "100")
	if _, page := o.post("/dead/act", q); o.in("discarded") != 100 {
		t.Errorf("%d are discarded\n%s", o.in("discarded"), page)
	}
	o.fail("r2", 1)
	q = form(t, o.get("/dead/act?action=resolve&run=r2"), "/dead/act")
	q.Set("count", "1")
	_, page := o.post("/dead/act", q)
	o.has(page, "say what became of the effects")
	q.Set("verdict", "happened")
	if _, page = o.post("/dead/act", q); o.in("resolved") != 1 {
		t.Errorf("it is not resolved:\n%s", page)
	}
}

// A viewer sees what could be done and why not by them, and can do none of it.
func TestAViewerActsOnNothing(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.fail("r1", 2)
	q := form(t, o.get("/dead/act?action=discard&run=r1"), "/dead/act")
	o.as(control.Viewer)
	list := o.get("/dead/list?run=r1")
	o.has(list, "disabled", "needs the role operator; you are viewer", "needs the role admin")
	if code, page := o.post("/dead/act", q); code != http.StatusForbidden || o.in("active") != 2 {
		t.Errorf("%d, %d are active\n%s", code, o.in("active"), page)
	}
	if code, _ := o.answer(o.http.Get(o.base + "/dead/export?run=r1")); code != http.StatusForbidden {
		t.Errorf("export: %d", code)
	}
}

// An export has every letter of the filter, whole, as an import takes it back.
func TestAnExportHasEveryLetterWhole(t *testing.T) {
	o, _ := operate(t, control.Admin)
	o.fail("r1", 3)
	o.fail("r2", 1)
	lines := strings.Split(strings.TrimSpace(o.get("/dead/export?run=r1")), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		var p control.Parcel
		if err := json.Unmarshal([]byte(line), &p); err != nil || p.Body != `{"order":7}` || p.Header.Get(schemas.HeaderRun) != "r1" || !strings.Contains(p.Subject, "crm.upsert") {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// What one request has no time for is left, counted, and done by the next ones; nothing
// is done twice and nothing is forgotten.
func TestMoreThanOneRequestCanDoIsGoneOnWith(t *testing.T) {
	w := worldtest.Prepare(t, crmTools, map[string]function.Func{"crm": crm{}.call}, false)
	worldtest.Fill(t, w.JS, w.Ledger(), 750, 3)
	w.Start()
	t.Cleanup(w.Stop)
	subjects, _ := schemas.NewSubjects("")
	c, err := console.New(console.Config{NATS: w.NC, Subjects: subjects, Version: "test", Log: zerolog.Nop(), ActFor: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	o := &operators{World: w, t: t, base: server.URL}
	o.signIn(server.URL + c.Link(console.User{Name: "ann", Role: control.Operator}))

	pick := url.Values{"scope": {"selected"}, "action": {"discard"}}
	for _, l := range o.Letters(deadletter.Filter{Limit: 150}).Letters {
		pick.Add("id", l.ID)
	}
	q := form(t, o.get("/dead/act?"+pick.Encode()), "/dead/act")
	q.Set("count", "150")
	_, page := o.post("/dead/act", q)
	if o.has(page, "128 discarded.", "22 are left", "Go on with the other 22"); o.in("discarded") != 128 {
		t.Errorf("%d are discarded", o.in("discarded"))
	}
	_, page = o.post("/dead/act", form(t, page, "/dead/act"))
	if o.has(page, "22 discarded."); o.in("discarded") != 150 {
		t.Errorf("%d are discarded", o.in("discarded"))
	}

	q = form(t, o.get("/dead/act?action=discard"), "/dead/act")
	q.Set("count", "600")
	q.Set("why", "INC-9")
	_, page = o.post("/dead/act", q)
	if o.has(page, "500 discarded.", "100 are left"); o.in("discarded") != 650 {
		t.Errorf("%d are discarded", o.in("discarded"))
	}
	_, page = o.post("/dead/act", form(t, page, "/dead/act"))
	if o.has(page, "100 discarded."); o.in("discarded") != 750 || o.in("active") != 0 {
		t.Errorf("%d are discarded", o.in("discarded"))
	}
	if a := o.audit("discard"); a[0].Why != "INC-9" {
		t.Errorf("the reason was lost on the way: %+v", a[0])
	}
}
