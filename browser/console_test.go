package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// What the tests share, made once: the program and one browser. Whoever tests has a
// house and pages of their own.
var (
	program string
	chrome  *Browser
)

func TestMain(m *testing.M) {
	code, err := prepared(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func prepared(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "tollgate-browser-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if program, err = Build(context.Background(), dir); err != nil {
		return 1, err
	}
	if chrome, err = Launch(); err != nil {
		return 1, err
	}
	defer chrome.Close()
	return m.Run(), nil
}

// house opens one for a test.
func house(t *testing.T) *House {
	t.Helper()
	h, err := Open(program, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("the program's end: %v", err)
		}
	})
	return h
}

// tab opens a page of somebody signed in with a role.
func (h *House) tab(t *testing.T, role string, script bool) *Tab {
	t.Helper()
	tab, err := chrome.Tab(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	link, err := h.Link(role)
	if err == nil {
		err = tab.SignIn(link)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// look holds a page that is loaded to what every page promises: no error in the
// browser, nothing wider than the window, and no violation that axe-core finds.
func look(t *testing.T, tab *Tab, axe, address string, looks []Look) {
	t.Helper()
	for _, l := range looks {
		if err := tab.Look(l); err != nil {
			t.Fatal(err)
		}
		wide, err := Eval[string](tab, overflow)
		if err != nil {
			t.Fatal(err)
		}
		if wide != "" {
			t.Errorf("%s at %s is wider than the window: %s", address, l, wide)
		}
		found, err := tab.Axe(axe)
		if err != nil {
			t.Fatalf("%s at %s: %v", address, l, err)
		}
		for _, v := range found {
			t.Errorf("%s at %s breaks %s", address, l, v)
		}
	}
	if err := tab.Look(Look{Width: 320}); err != nil {
		t.Fatal(err)
	}
	if wide, err := Eval[string](tab, overflow); err != nil || wide != "" {
		t.Errorf("%s at 320 is wider than the window: %s %v", address, wide, err)
	}
	if troubles := tab.Troubles(); len(troubles) > 0 {
		t.Errorf("%s: the browser says\n    %s", address, strings.Join(troubles, "\n    "))
	}
}

// overflow names what sticks out of the window, when the document can be scrolled
// sideways. What scrolls in a region of its own does not count.
const overflow = `(() => {
	const root = document.documentElement;
	if (root.scrollWidth <= root.clientWidth) return "";
	const out = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest(".scroll, pre"));
	return root.scrollWidth + " of " + root.clientWidth + ": " + out.slice(0, 3).map(e => e.outerHTML.slice(0, 160)).join(" | ");
})()`

// kinds are the pages that have to be reached.
var kinds = []string{"/", "/calls", "/calls/ID", "/dead", "/dead/list", "/dead/ID", "/dead/ID/edit", "/replay/new", "/replays", "/replays/ID",
	"/runs", "/runs/ID", "/tools", "/tools/ID", "/audit", "/settings"}

// Every page that can be reached can be used: by everybody, in both themes, on a desk
// and on a telephone.
func TestEveryPageIsForEverybody(t *testing.T) {
	h := house(t)
	if err := h.Seed(); err != nil {
		t.Fatal(err)
	}
	axe, err := ReadAxe()
	if err != nil {
		t.Fatal(err)
	}
	tab := h.tab(t, "admin", true)
	reached := map[string]bool{}
	err = tab.Walk(func(address string) error {
		shape, _, filtered := strings.Cut(Shape(address), "?")
		looks := Looks
		if reached[shape] && filtered { // the same page, with more or less in it
			looks = []Look{{400, true}}
		}
		reached[shape] = true
		look(t, tab, axe, address, looks)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, kind := range kinds {
		if !reached[kind] {
			t.Errorf("no page leads to %s", kind)
		}
	}
	t.Logf("looked at %d kinds of pages", len(reached))
}

// Also a page that is refused, and the one where one signs in, are for everybody.
func TestPagesOfTroubleAreForEverybody(t *testing.T) {
	h := house(t)
	axe, err := ReadAxe()
	if err != nil {
		t.Fatal(err)
	}
	tab := h.tab(t, "viewer", true)
	for address, want := range map[string]int{"/runs/nobody": 404, "/no-such-page": 404, "/runs?state=happy": 400, "/signin": 200, "/signin?link=old": 403} {
		status, err := tab.Go(address)
		if err != nil || status != want {
			t.Errorf("%s answers %d, want %d: %v", address, status, want, err)
		}
		tab.Troubles() // the browser tells of each status that is not 200
		look(t, tab, axe, address, Looks)
	}
}
