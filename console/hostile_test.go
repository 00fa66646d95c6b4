package console_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"tollgate/console"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/replays"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// evil is text that wants to be more than text: a script, an attribute, a link, colours of
// a terminal, and text that turns what stands behind it.
const evil = "<script id=evil>alert(1)</script><img src=x onerror=evil()>\" onmouseover=\"evil()\" ' onfocus='evil() javascript:evil() {{.Evil}} \x1b[31mred\x1b]8;;http://evil.example\x07 \u202Etxt.exe\u2066 \x00\u200B</textarea></title></pre><style>*{display:none}</style>"

// hostileWorld has what an agent and a tool may leave behind that mean no good: outcomes,
// letters of every kind, refusals, and what operators have pasted out of them.
func hostileWorld(t *testing.T) (w *worldtest.World, ids []string) {
	big := strings.Repeat("<b>evil</b>", 10_000) // far more than is shown anywhere
	quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\x1b", `\u001b`, "\x07", `\u0007`, "\x00", `\u0000`).Replace(evil) + `"`
	w = worldtest.Prepare(t, "  hostile: { function: f, effect: write, policies: [quick] }\n  kind: { function: f, effect: read, policies: [quick] }\n", map[string]function.Func{
		"f": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			switch {
			case in.Tool == "kind":
				return map[string]string{evil: evil}, nil
			case strings.HasPrefix(in.Key, "big"):
				return nil, function.Stop(schemas.DownstreamRejected, "BAD", evil+big)
			}
			return nil, function.Stop(schemas.DownstreamRejected, "<script>evil</script>", evil)
		}}, false)
	w.Config += "dead_letters: { allow_edit: true }\n"
	w.Start()
	t.Cleanup(w.Stop)
	key := "<script>evil()</script>\"onload='evil()'"
	for _, m := range []worldtest.Msg{
		{Tool: "kind", Run: "r", Key: key, Body: `{"x":` + quoted + `}`},
		{Tool: "hostile", Run: "r", Key: key, Body: `{"x":` + quoted + `,` + quoted + `:[1e400,12345678901234567890]}`, Header: map[string]string{"X-Note": "<script id=evil>" + `" onload="evil()`}},
		{Tool: "hostile", Run: "r/a", Key: "big", Body: `{"x":"` + big + `"}`},
	} {
		w.Publish(m)
		w.Outcome(m, 20*time.Second)
		ids = append(ids, dedupe.LetterID(worldtest.CallID(m), 0))
	}
	for _, m := range []*nats.Msg{ // that are no calls
		{Subject: "tollgate.calls.default.<script>evil()</script>", Data: []byte(evil), Header: nats.Header{schemas.HeaderRun: {"<img/src/onerror=evil()>"}, schemas.HeaderKey: {"k"}}},
		{Subject: "tollgate.calls.default.hostile", Data: []byte("\xff\xfe<script id=evil>\xff" + evil), Header: nats.Header{schemas.HeaderRun: {"r\xff<b>"}, schemas.HeaderKey: {"bad\xffkey"}}},
	} {
		if _, err := w.JS.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var letters deadletter.Page
	w.Until(time.Minute, "every letter is there", func() bool {
		letters = w.Letters(deadletter.Filter{State: "all"})
		return letters.Total == 4
	})
	for _, l := range letters.Letters {
		ids = append(ids, l.ID)
	}
	w.Ctl.By = "eve " + evil
	worldtest.Ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: "kind", Why: evil})
	worldtest.Ask[control.Done](w, control.VerbNote, control.NoteQuery{ID: ids[1], Text: evil})
	worldtest.Ask[control.RunDetail](w, control.VerbRunGrant, control.GrantQuery{Run: "r", Attempts: 1, Why: evil})
	worldtest.Ask[dedupe.Replay](w, control.VerbReplaysCreate, replays.Query{Name: "again", IDs: ids[1:3], ReplayOptions: deadletter.ReplayOptions{Why: evil}, Rate: 0.001})
	worldtest.Ask[dedupe.Replay](w, control.VerbReplayCancel, control.ReplayName{Name: "again", Why: evil})
	gs := worldtest.Ask[control.GroupsPage](w, control.VerbGroups, control.GroupsQuery{})
	for _, g := range gs.Groups {
		ids = append(ids, g.ID)
	}
	for _, id := range ids[:3] {
		call, _, _ := strings.Cut(id, ".")
		ids = append(ids, call)
	}
	return w, append(ids, "r", "kind", "hostile", "again")
}

var (
	tags        = regexp.MustCompile(`<[a-zA-Z/!][^>]*>`)
	values      = regexp.MustCompile(`"[^"]*"`)
	links       = regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)
	powers      = regexp.MustCompile(`(?i)\s(on[a-z]+|style|srcdoc|formaction|http-equiv)\s*=|'`)
	strange     = regexp.MustCompile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069]")
	fieldValues = regexp.MustCompile(`<input [^>]*>`)
	braces      = regexp.MustCompile(`\{[^{}]*\}`)
)

// harmless fails when a page holds anything that its text has made of it.
func harmless(t *testing.T, where, page string) {
	t.Helper()
	if len(where) > 60 {
		where = where[:60] + "…"
	}
	if !utf8.ValidString(page) {
		t.Errorf("%s is not UTF-8", where)
	}
	// A field holds what its address says, to send it again as it is.
	if found := strange.FindString(fieldValues.ReplaceAllString(page, "")); found != "" {
		t.Errorf("%s holds %+q", where, found)
	}
	for _, tag := range tags.FindAllString(page, -1) {
		bare := values.ReplaceAllString(tag, "")
		if powers.MatchString(bare) || strings.Contains(bare, "evil") || strings.HasPrefix(tag, "<style") || strings.HasPrefix(tag, "<img") {
			t.Errorf("%s has the tag %.300s", where, tag)
		}
		if strings.HasPrefix(tag, "<script") && tag != `<script src="/static/console.js" defer>` {
			t.Errorf("%s has the script %.300s", where, tag)
		}
	}
	for _, l := range links.FindAllStringSubmatch(page, -1) {
		if to := html.UnescapeString(l[1]); !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "#") || strings.HasPrefix(to, "//") {
			t.Errorf("%s leads to %.200q", where, to)
		}
	}
}

// guarded fails unless an answer says what a browser may do with it.
func guarded(t *testing.T, where string, h http.Header) {
	t.Helper()
	csp := h.Get("Content-Security-Policy")
	for _, rule := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
		if !strings.Contains(csp, rule) {
			t.Errorf("%s: the policy %q lacks %s", where, csp, rule)
		}
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %s is %q", where, name, got)
		}
	}
	if kind := h.Get("Content-Type"); strings.Contains(kind, "json") && h.Get("Content-Disposition") == "" && strings.Contains(where, "export") {
		t.Errorf("%s is shown and not saved: %s", where, kind)
	}
}

// quiet waits until the dispatcher has nothing left to do by itself.
func quiet(w *worldtest.World) control.Status {
	w.T.Helper()
	var last control.Status
	w.Until(time.Minute, "nothing is committed any more", func() bool {
		now := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{})
		same := now.Ledger.Commits == last.Ledger.Commits && now.Owed == 0 && now.Running == 0
		last = now
		time.Sleep(time.Second)
		return same
	})
	return last
}

// B-hostile: what agents and tools write is text on every page there is, and on every
// page that those lead to; and looking changes nothing.
func TestWhatOthersWroteIsTextOnEveryPage(t *testing.T) {
	w, ids := hostileWorld(t)
	b := browse(t, w, control.Admin)
	load := func(path string) (int, string, http.Header) {
		t.Helper()
		resp, err := b.client.Get(b.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body := b.read("GET "+path, resp, nil, []int{resp.StatusCode})
		guarded(t, path, resp.Header)
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			harmless(t, path, body)
		}
		return resp.StatusCode, body, resp.Header
	}
	before := quiet(w)
	audits := len(w.Audits())

	var queue []string
	for _, pattern := range console.Patterns() {
		path, isGet := strings.CutPrefix(pattern, "GET ")
		path = strings.TrimSuffix(path, "{$}")
		if !isGet || path == "/" && pattern == "GET /" {
			continue
		}
		candidates := []string{path, path + "?" + url.Values{"group": {evil}, "run": {evil}, "tool": {evil}, "by": {evil}, "under": {evil}, "target": {evil}, "cursor": {evil}, "q": {evil}, "id": {evil}}.Encode(),
			path + "?" + url.Values{"action": {"discard"}, "id": {ids[1]}, "scope": {"selected"}, "format": {"jsonl"}}.Encode()}
		if braces.MatchString(path) {
			candidates = nil
			for _, id := range ids {
				candidates = append(candidates, braces.ReplaceAllLiteralString(path, url.PathEscape(id)))
			}
			candidates = append(candidates, braces.ReplaceAllLiteralString(path, url.PathEscape(evil)))
		}
		shown := false
		for _, c := range candidates {
			status, _, _ := load(c)
			shown = shown || status == http.StatusOK
			if status >= 500 {
				t.Errorf("%s: status %d", c, status)
			}
		}
		if !shown {
			t.Errorf("%s was shown for none of %.500q", pattern, candidates)
		}
		queue = append(queue, candidates...)
	}
	seen := map[string]bool{}
	for len(queue) > 0 && len(seen) < 120 { // and what they lead to
		path := queue[0]
		queue = queue[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		_, page, _ := load(path)
		for _, l := range links.FindAllStringSubmatch(page, -1) {
			to, _, _ := strings.Cut(html.UnescapeString(l[1]), "#")
			if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/sign") && !slices.Contains(queue, to) {
				queue = append(queue, to)
			}
		}
	}
	for _, path := range []string{"/static/style.css", "/static/nothing", "/signin", "/no/such/page", "/audit?since=" + url.QueryEscape(evil)} {
		load(path)
	}
	if after := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); after.Ledger.Commits != before.Ledger.Commits || len(w.Audits()) != audits {
		t.Errorf("looking has changed something: %d commits, before %d; %d audit entries, before %d", after.Ledger.Commits, before.Ledger.Commits, len(w.Audits()), audits)
	}
}

// A page of another site can make a browser send anything but what these forms ask for.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	w, ids := hostileWorld(t)
	b := browse(t, w, control.Admin)
	patterns := append(console.Patterns(), "POST /signin", "POST /signout")
	tried := 0
	for _, pattern := range patterns {
		path, isPost := strings.CutPrefix(pattern, "POST ")
		if !isPost {
			continue
		}
		for _, header := range []map[string]string{{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}} {
			r, err := http.NewRequest("POST", b.url+braces.ReplaceAllLiteralString(path, ids[1]), strings.NewReader("why=x&count=1&confirm=1"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for name, value := range header {
				r.Header.Set(name, value)
			}
			resp, err := b.client.Do(r)
			b.read(pattern, resp, err, []int{http.StatusForbidden})
			guarded(t, pattern, resp.Header)
			tried++
		}
	}
	if tried < 40 {
		t.Errorf("only %d forms were tried", tried)
	}
	for _, a := range w.Audit("*") {
		if a.By == "ann" { // the browser's user; a replay that eve has begun may still go on
			t.Errorf("decided: %+v", a)
		}
	}
	b.get("/audit") // the session is still open: the foreign sign-out was refused too
}

// Whatever a viewer sends to whatever form, nothing is decided.
func TestAViewerDecidesNothing(t *testing.T) {
	w, ids := hostileWorld(t)
	b := browse(t, w, control.Viewer)
	for _, pattern := range console.Patterns() {
		path, isPost := strings.CutPrefix(pattern, "POST ")
		if !isPost {
			continue
		}
		for _, id := range ids {
			form := url.Values{"why": {"because"}, "reason": {"because"}, "id": {ids[1]}, "ids": {ids[1]}, "group": {ids[len(ids)-8]}, "text": {"x"}, "attempts": {"1"}, "count": {"1"}, "confirm": {"1"},
				"action": {"discard"}, "do": {"discard"}, "name": {"another"}, "rate": {"1"}, "verdict": {"happened"}, "happened": {"yes"}, "outcome": {"happened"}}
			resp, err := b.client.PostForm(b.url+braces.ReplaceAllLiteralString(path, url.PathEscape(id)), form)
			if err != nil {
				t.Fatal(err)
			}
			page := b.read(pattern, resp, nil, []int{resp.StatusCode})
			harmless(t, pattern, page)
			if resp.StatusCode >= 500 {
				t.Errorf("%s: status %d", pattern, resp.StatusCode)
			}
		}
	}
	refused := 0
	for _, a := range w.Audit("*") {
		switch {
		case a.By == "ann" && a.Allowed: // the viewer; a replay that eve has begun may still go on
			t.Errorf("decided: %+v", a)
		case a.By == "ann":
			refused++
		}
	}
	if refused < 10 {
		t.Errorf("only %d refusals are in the audit: the forms were not understood", refused)
	}
}
