package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"tollgate/console"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// crm is a tool that fails for good until it is healed.
type crm struct{ healed chan struct{} }

func (c crm) call(context.Context, dispatcher.Invocation) (any, error) {
	select {
	case <-c.healed:
		return map[string]any{"ok": true}, nil
	default:
		return nil, function.Stop(schemas.DownstreamRejected, "NO_ORDER", "order 7 was not found")
	}
}

const crmTools = `
  crm.upsert: { effect: write, retry_safety: idempotency_key, key_retention: 24h, policies: [quick], function: crm }
`

// operators is a world with a browser that has signed in.
type operators struct {
	*worldtest.World
	t    *testing.T
	base string
	http *http.Client
}

// operate starts a dispatcher whose crm.upsert fails, and signs in.
func operate(t *testing.T, role control.Role) (*operators, func()) {
	t.Helper()
	c := crm{healed: make(chan struct{})}
	w := worldtest.Prepare(t, crmTools, map[string]function.Func{"crm": c.call}, false)
	w.Config = "http: { listen: \"127.0.0.1:0\" }\n" + w.Config
	w.Start()
	t.Cleanup(w.Stop)
	o := &operators{World: w, t: t}
	o.as(role)
	return o, func() { close(c.healed) }
}

// as signs in as somebody else.
func (o *operators) as(role control.Role) {
	o.t.Helper()
	o.base = o.App.HTTPURL()
	o.signIn(o.App.ConsoleLink(console.User{Name: "ann", Role: role}))
}

func (o *operators) signIn(link string) {
	o.t.Helper()
	jar, _ := cookiejar.New(nil)
	o.http = &http.Client{Jar: jar, Timeout: time.Minute}
	o.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // not to the first page
	resp, err := o.http.Get(link)
	if err != nil || resp.StatusCode != http.StatusSeeOther {
		o.t.Fatalf("sign in: %v %v", resp, err)
	}
	resp.Body.Close()
	o.http.CheckRedirect = nil
}

// fail makes calls that become dead letters.
func (o *operators) fail(run string, n int) {
	o.t.Helper()
	for i := range n {
		o.Publish(worldtest.Msg{Tool: "crm.upsert", Run: run, Key: fmt.Sprintf("%s:%d", run, i), Body: `{"order":7}`})
	}
	o.Until(20*time.Second, "dead letters", func() bool {
		return o.Letters(deadletter.Filter{Run: run, State: "all"}).Total >= n
	})
	o.Drained(20 * time.Second)
}

func (o *operators) answer(resp *http.Response, err error) (int, string) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// get loads a page that has to be there.
func (o *operators) get(path string) string {
	o.t.Helper()
	code, body := o.answer(o.http.Get(o.base + path))
	if code != http.StatusOK {
		o.t.Fatalf("GET %s: %d\n%s", path, code, body)
	}
	return body
}

// form is the hidden fields of the page's form that posts to an address.
func form(t *testing.T, page, action string) url.Values {
	t.Helper()
	_, rest, found := strings.Cut(page, `method="post" action="`+action+`"`)
	if !found {
		t.Fatalf("no form posts to %s in\n%s", action, page)
	}
	rest, _, _ = strings.Cut(rest, "</form>")
	q := url.Values{}
	for _, tag := range regexp.MustCompile(`<input [^>]*>`).FindAllString(rest, -1) {
		name, value := attribute(tag, "name"), attribute(tag, "value")
		if name != "" && (!strings.Contains(tag, "type=\"radio\"") && !strings.Contains(tag, "type=\"checkbox\"") || strings.Contains(tag, " checked")) {
			q.Add(name, value)
		}
	}
	return q
}

func attribute(tag, name string) string {
	m := regexp.MustCompile(` ` + name + `="([^"]*)"`).FindStringSubmatch(tag)
	if m == nil {
		return ""
	}
	return strings.NewReplacer("&amp;", "&", "&#34;", `"`, "&#43;", "+", "&lt;", "<", "&gt;", ">").Replace(m[1])
}

// post sends a form and follows where it leads.
func (o *operators) post(path string, q url.Values) (int, string) {
	o.t.Helper()
	return o.answer(o.http.PostForm(o.base+path, q))
}

func (o *operators) has(page string, wants ...string) {
	o.t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			o.t.Errorf("not on the page: %s", want)
		}
	}
	if o.t.Failed() {
		o.t.Logf("%s", page)
	}
}

// What calls died of can be seen, narrowed and followed down to each letter.
func TestDeadLettersAreGroupedAndListed(t *testing.T) {
	o, _ := operate(t, control.Operator)
	o.has(o.get("/dead"), "No dead letters.", "tollgate call demo.flaky")
	o.fail("r1", 3)
	o.fail("r2", 2)
	group := o.LettersOf("r1")[0].Fingerprint
	o.has(o.get("/dead"), group, "5 dead letters in 1 group", "order 7 was not found", "/dead/list?group="+group, "/replay/new?group="+group, "action=discard", "<svg class=\"spark\"")
	o.has(o.get("/dead?by=run"), ">r1<", ">r2<", "5 dead letters in 2 groups")
	o.has(o.get("/dead?by=hour"), "5 dead letters in 1 group", "since=")
	list := o.get("/dead/list?run=r1&sort=-run&limit=25")
	o.has(list, "3 of 3 dead letters", `aria-sort="descending"`, `Run and below: r1`, `data-select`, "The hours as a table", `value="replay"`, `name="scope" value="all"`)
	if strings.Contains(list, "r2:") {
		t.Error("a letter of another run is in the list")
	}
	first := o.get("/dead/list?limit=25&sort=run&cursor=" + fmt.Sprint(o.Letters(deadletter.Filter{Sort: "run", Limit: 2}).Next))
	o.has(first, "3 of 5 dead letters", "First page")
}

// A filter that does not work says so in its form, which keeps what was typed.
func TestAFilterThatDoesNotWorkIsShownAgain(t *testing.T) {
	o, _ := operate(t, control.Viewer)
	for _, path := range []string{"/dead", "/dead/list"} {
		code, page := o.answer(o.http.Get(o.base + path + "?error_re=%5B&since=soon&tool=crm.*"))
		if code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, code)
		}
		o.has(page, "regular expression", "neither a time nor an age", `value="soon"`, `value="crm.*"`)
	}
}
