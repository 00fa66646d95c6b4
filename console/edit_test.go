package console_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// bank pays unless the amount is 13, and remembers what it was asked.
type bank struct {
	mu    sync.Mutex
	asked []string
}

func (b *bank) call(_ context.Context, in dispatcher.Invocation) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, string(in.Arguments))
	if strings.Contains(string(in.Arguments), "13") {
		return nil, function.Stop(schemas.DownstreamRejected, "UNLUCKY", "thirteen <b>is</b> refused")
	}
	return "paid", nil
}

func (b *bank) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[len(b.asked)-1]
}

const bankTools = `
  pay.it:
    function: bank
    effect: write
    policies: [quick]
    redact: [/card]
    schema: { type: object, properties: { amount: { type: integer, minimum: 1 } }, required: [amount] }
`

// hostileNote would leave its place on a page, and turn the text behind it around.
const hostileNote = "</textarea><script>alert(1)</script>\u202etxt.exe &amp; \U000E0041"

// editing is a dispatcher whose one dead letter has wrong arguments; config ends its file.
func editing(t *testing.T, role control.Role, config string) (o *operators, b *bank, id string) {
	t.Helper()
	b = &bank{}
	w := worldtest.Prepare(t, bankTools, map[string]function.Func{"bank": b.call}, false)
	w.Config = "http: { listen: \"127.0.0.1:0\" }\n" + config + w.Config
	w.Start()
	t.Cleanup(w.Stop)
	o = &operators{World: w, t: t}
	o.as(role)
	m := worldtest.Msg{Tool: "pay.it", Run: "r", Key: "k", Body: `{"amount": 13, "ref": 12345678901234567890, "card": "4111-1111", "note": "` + hostileNote + `"}`}
	w.Publish(m)
	w.Outcome(m, 20*time.Second)
	w.Drained(20 * time.Second)
	return o, b, o.LettersOf("r")[0].ID
}

const allowEdit = "dead_letters: { allow_edit: true }\n"

// area is what stands in the page's field for arguments.
func area(t *testing.T, page string) string {
	t.Helper()
	m := regexp.MustCompile(`(?s)<textarea [^>]*>\n(.*?)</textarea>`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("there is no field for arguments:\n%s", page)
	}
	return html.UnescapeString(m[1])
}

// changed are the lines of a page's diff that would go, and that would come.
func changed(page string) (minus, plus []string) {
	for _, m := range regexp.MustCompile(`<span class="(plus|minus)">(.*)`).FindAllStringSubmatch(page, -1) {
		if m[1] == "plus" {
			plus = append(plus, html.UnescapeString(m[2]))
		} else {
			minus = append(minus, html.UnescapeString(m[2]))
		}
	}
	return minus, plus
}

// An edit is shown before it is done, and what is done is what was shown: once, as one
// new call that its letter names and that names its letter.
func TestAnEditIsShownAndThenDone(t *testing.T) {
	o, b, id := editing(t, control.Admin, allowEdit)
	at := "/dead/" + id + "/edit"
	o.has(o.get("/dead/"+id), `<a href="`+at+`">Edit and replay…</a>`)
	page := o.get(at)
	o.has(page, "UNLUCKY", "thirteen &lt;b&gt;is&lt;/b&gt; refused", `href="/tools/pay.it"`)
	text := area(t, page)
	if !strings.Contains(text, `"ref": 12345678901234567890`) || !strings.Contains(text, deadletter.Mask) || strings.Contains(page, "4111") {
		t.Errorf("the field has %s", text)
	}
	q := url.Values{"arguments": {strings.ReplaceAll(strings.Replace(text, "13", "14", 1), "\n", "\r\n")}, "why": {"INC-9: wrong amount"}, "window": {"5m"}}
	code, page := o.post(at, q)
	minus, plus := changed(page)
	if code != http.StatusOK || len(minus) != 1 || len(plus) != 1 || minus[0] != `-  "amount": 13,` || plus[0] != `+  "amount": 14,` {
		t.Fatalf("%d: the diff takes %q and puts %q\n%s", code, minus, plus, page)
	}
	if o.state(id) != schemas.LetterActive || len(o.audit("edit")) != 0 {
		t.Fatal("a dry run has done something")
	}
	confirm := form(t, page, at)
	o.has(page, "INC-9: wrong amount", "5m from when it is done", confirm.Get("shown"))

	other := url.Values{"arguments": {`{"amount": 15}`}, "why": {"INC-9"}, "shown": confirm["shown"]}
	if _, page := o.post(at, other); o.state(id) != schemas.LetterActive {
		t.Fatal("what was done is not what was shown")
	} else {
		o.has(page, "Nothing was done yet")
	}

	call := o.confirm(at, confirm)
	o.Until(20*time.Second, "the new call", func() bool {
		return worldtest.Ask[control.CallDetail](o.World, control.VerbCallShow, control.IDQuery{ID: call}).State == "done"
	})
	if l := o.Letter(id); l.State != schemas.LetterResolved || l.EditedTo != call || call != confirm.Get("shown") {
		t.Errorf("it is %s, edited to %q, was shown as %s and is %s", l.State, l.EditedTo, confirm.Get("shown"), call)
	}
	if got := b.last(); !strings.Contains(got, `"card":"4111-1111"`) || !strings.Contains(got, `"amount":14`) || !strings.Contains(got, "<script>") {
		t.Errorf("the tool was asked %s", got)
	}
	if a := o.audit("edit"); len(a) != 1 || a[0].By != "ann" || a[0].Why != "INC-9: wrong amount" {
		t.Errorf("audit: %+v", a)
	}
	o.has(o.get("/dead/"+id), "It was resolved by an edit", `href="/calls/`+call+`"`)
	if again := o.confirm(at, confirm); again != call || len(o.audit("edit")) != 1 {
		t.Errorf("sent again it made %s", again)
	}
	if page = o.get(at); strings.Contains(page, "<textarea") || strings.Contains(page, "What you have written") {
		t.Error("it is offered again")
	}
	o.has(page, "edited already", `href="/calls/`+call+`"`)
	if code, page = o.post(at, other); code != http.StatusConflict {
		t.Errorf("edited in another way: %d\n%s", code, page)
	}
}

// confirm sends what was shown and returns the call whose page it leads to.
func (o *operators) confirm(at string, q url.Values) string {
	o.t.Helper()
	o.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer func() { o.http.CheckRedirect = nil }()
	resp, err := o.http.PostForm(o.base+at, q)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	call, found := strings.CutPrefix(resp.Header.Get("Location"), "/calls/")
	if resp.StatusCode != http.StatusSeeOther || !found {
		o.t.Fatalf("%d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	return call
}

// While the new call waits for its turn the letter is gone on to, which names it.
func TestAnEditedCallThatWaitsIsNamedByItsLetter(t *testing.T) {
	o, _, id := editing(t, control.Admin, allowEdit)
	worldtest.Ask[control.ToolDetail](o.World, control.VerbToolPause, control.ToolQuery{Tool: "pay.it", Why: "maintenance"})
	at := "/dead/" + id + "/edit"
	_, page := o.post(at, url.Values{"arguments": {`{"amount": 14}`}, "why": {"INC-9"}})
	code, page := o.post(at, form(t, page, at))
	if o.has(page, "It waits in its stream", "✓ resolved", `href="/calls/`+o.Letter(id).EditedTo+`"`); code != http.StatusOK {
		t.Errorf("%d", code)
	}
}

// What is wrong is said with its place, beside the text as it was written, and changes nothing.
func TestAnEditThatWillNotDoKeepsWhatWasWritten(t *testing.T) {
	o, _, id := editing(t, control.Admin, allowEdit)
	for name, tc := range map[string]struct {
		text, why, window string
		says              string
	}{
		"schema":    {`{"amount": 0}`, "x", "", "/amount"},
		"no JSON":   {"{\n\"amount\": <14>\n}", "x", "", "not JSON, in line 2"},
		"cut off":   {"{\n", "x", "", "not JSON, in line"},
		"nothing":   {"", "x", "", "not JSON, in line 1"},
		"no reason": {`{"amount": 14}`, " ", "", "needs a reason"},
		"no time":   {`{"amount": 14}`, "x", "soon", "the time from now"},
		"too long":  {`{"amount": 14, "note": "` + strings.Repeat("x", 2<<20) + `"}`, "x", "", "longer than a message may be"},
	} {
		code, page := o.post("/dead/"+id+"/edit", url.Values{"arguments": {tc.text}, "why": {tc.why}, "window": {tc.window}, "shown": {""}})
		if code != http.StatusUnprocessableEntity || !strings.Contains(page, tc.says) || area(t, page) != tc.text || strings.Contains(page, `name="shown"`) {
			t.Errorf("%s: %d, want %q beside what was written:\n%.6000s", name, code, tc.says, page)
		}
	}
	if o.state(id) != schemas.LetterActive || len(o.audit("edit")) != 0 {
		t.Errorf("it is %s", o.state(id))
	}
}

// Text of others leaves no field and no line, hides nothing, and is no change by itself.
func TestHostileArgumentsAreEditedAsText(t *testing.T) {
	o, _, id := editing(t, control.Admin, allowEdit)
	at := "/dead/" + id + "/edit"
	page := o.get(at)
	text := area(t, page)
	if !strings.Contains(text, `\u202etxt.exe`) || !strings.Contains(text, `\udb40\udc41`) || !strings.Contains(text, "<script>") {
		t.Errorf("the field has %s", text)
	}
	code, shown := o.post(at, url.Values{"arguments": {text}, "why": {"<script>alert(2)</script>\u202e"}})
	if minus, plus := changed(shown); code != http.StatusUnprocessableEntity || len(minus)+len(plus) != 0 || !strings.Contains(shown, "do not change") {
		t.Errorf("%d: the same arguments take %q and put %q", code, minus, plus)
	}
	_, last := o.post(at, url.Values{"arguments": {strings.Replace(text, "txt.exe", "txt.exe\u202e</span><script>", 1)}, "why": {"x"}})
	o.has(last, `txt.exe\u202e&lt;/span&gt;&lt;script&gt; &amp;amp;`)
	for name, p := range map[string]string{"first": page, "shown": shown, "edited": last} {
		if strings.Contains(p, "<script>") || name == "first" && strings.ContainsAny(p, "\u202e\U000E0041") {
			t.Errorf("%s: it is more than text:\n%s", name, p)
		}
	}
}

// Where it is off the page says why, and how to switch it on.
func TestEditingIsOffUnlessTheConfigurationAllowsIt(t *testing.T) {
	o, _, id := editing(t, control.Admin, "")
	code, page := o.answer(o.http.Get(o.base + "/dead/" + id + "/edit"))
	if o.has(page, "editing is not allowed here", "allow_edit: true"); code != http.StatusForbidden || strings.Contains(page, "<textarea") {
		t.Errorf("%d", code)
	}
	code, page = o.post("/dead/"+id+"/edit", url.Values{"arguments": {`{"amount": 14}`}, "why": {"x"}})
	if o.has(page, "editing is not allowed here", "What you have written", "14"); code != http.StatusForbidden || o.state(id) != schemas.LetterActive {
		t.Errorf("%d, %s", code, o.state(id))
	}
}

// Whoever may not edit is told so, and looking is no attempt.
func TestOnlyAnAdminEdits(t *testing.T) {
	for _, role := range []control.Role{control.Viewer, control.Operator} {
		o, _, id := editing(t, role, allowEdit)
		why := "needs the role admin; you are " + string(role)
		o.has(o.get("/dead/"+id), "Edit and replay… <small>"+why)
		code, page := o.answer(o.http.Get(o.base + "/dead/" + id + "/edit"))
		if o.has(page, why); code != http.StatusForbidden || len(o.audit("edit")) != 0 {
			t.Errorf("%s: %d", role, code)
		}
		code, _ = o.post("/dead/"+id+"/edit", url.Values{"arguments": {`{"amount": 14}`}, "why": {"x"}})
		if a := o.audit("edit"); code != http.StatusForbidden || o.state(id) != schemas.LetterActive || len(a) != 1 || a[0].Allowed {
			t.Errorf("%s: %d, %s, audit %+v", role, code, o.state(id), a)
		}
	}
}
