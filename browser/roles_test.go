package browser

import (
	"strings"
	"testing"
)

// Forms that change something, by whether they can be sent and what they say.
const forms = `[...document.querySelectorAll("main form[method=post]")].map(f => ({
	Action: f.getAttribute("action"),
	Open: [...f.querySelectorAll("button:not([disabled], [formmethod=get])")].map(b => b.textContent.trim()),
	Shut: f.querySelectorAll("button:disabled").length, Says: f.textContent,
}))`

type form struct {
	Action string
	Open   []string
	Shut   int
	Says   string
}

// Whoever may only look sees every button that others have, disabled, and beside it why;
// and no page offers what would be refused.
func TestAViewerSeesWhyNothingCanBePressed(t *testing.T) {
	h := house(t)
	if err := h.Seed(); err != nil {
		t.Fatal(err)
	}
	tab := h.tab(t, "viewer", true)
	met := map[string]bool{}
	see := func(address string) error {
		all, err := Eval[[]form](tab, forms)
		for _, f := range all {
			met[Shape(f.Action)] = true
			if len(f.Open) > 0 {
				t.Errorf("on %s a viewer may press %q of %s", address, f.Open, f.Action)
			}
			if f.Shut > 0 && !strings.Contains(f.Says, "needs the role") {
				t.Errorf("on %s the form %s does not say why it cannot be sent", address, f.Action)
			}
		}
		return err
	}
	if err := tab.Walk(see); err != nil {
		t.Error(err)
	}
	teller{t, tab}.visit("/tools/demo.echo") // the walk meets a paused one
	if err := see("/tools/demo.echo"); err != nil {
		t.Error(err)
	}
	for _, action := range []string{"/runs/ID/grant", "/runs/ID/cancel", "/tools/ID/pause", "/tools/ID/resume", "/replay/new"} {
		if !met[action] {
			t.Errorf("no page shows a viewer the form %s", action)
		}
	}
}

// What a role may is what its pages let it press, and the rest is refused whatever is sent.
func TestRolesAreKeptByTheServer(t *testing.T) {
	h := house(t)
	if err := h.Seed(); err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string][2]int{"viewer": {403, 403}, "operator": {200, 403}, "admin": {200, 200}} {
		tab := h.tab(t, role, true)
		for i, send := range []string{
			`fetch("/tools/demo.echo/pause", {method: "POST", body: new URLSearchParams({why: "test"})})`,
			`fetch("/runs/research/grant", {method: "POST", body: new URLSearchParams({account: "research", attempts: "1", why: "test"})})`,
		} {
			status, err := Eval[int](tab, send+".then(r => r.status)")
			if err != nil || status != want[i] {
				t.Errorf("%s sends %s and is answered %d, want %d: %v", role, send, status, want[i], err)
			}
		}
	}
	tab := h.tab(t, "viewer", true)
	if _, err := tab.Go("/audit?refused=yes"); err != nil {
		t.Fatal(err)
	}
	teller{t, tab}.says("✗ refused", "pause", "grant")
}

// Nobody is let in without a link, and a link lets in one browser.
func TestWhoIsNotSignedInSeesNothing(t *testing.T) {
	h := house(t)
	link, err := h.Link("admin")
	if err != nil {
		t.Fatal(err)
	}
	first, second := teller{t, stranger(t)}, teller{t, stranger(t)}
	first.step("sign in", first.SignIn(link))
	if second.SignIn(link) == nil {
		t.Error("a link has let in two browsers")
	}
	for _, address := range []string{"/", "/runs", "/audit"} {
		second.visit(address)
		second.says("Sign in")
	}
	first.step("sign out", first.press(`//button[normalize-space()="Sign out"]`))
	first.visit("/runs")
	first.says("Sign in")
}

// stranger is a page of nobody.
func stranger(t *testing.T) *Tab {
	t.Helper()
	tab, err := chrome.Tab(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return tab
}
