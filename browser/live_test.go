package browser

import (
	"fmt"
	"slices"
	"testing"
)

// row is where a row of a list is, from the top of the page.
type row struct {
	ID  string
	Top float64
}

const rowsOf = `[...document.querySelectorAll("[data-row]")].map(r => ({ID: r.dataset.row, Top: r.getBoundingClientRect().top + scrollY}))`

// While somebody reads a list or is about to click, nothing moves under the hand: what
// is new is announced, and shown when it is asked for.
func TestLiveUpdatesNeverMoveARow(t *testing.T) {
	h := house(t)
	if err := h.Calls(seeds()[:4]...); err != nil {
		t.Fatal(err)
	}
	axe, err := ReadAxe()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"/runs", "/calls"} {
		s := teller{t, h.tab(t, "viewer", true)}
		s.visit(list)
		before, err := Eval[[]row](s.Tab, rowsOf)
		if s.step("see the rows", err); len(before) == 0 {
			t.Fatalf("%s has no rows", list)
		}
		run := "new" + list[1:]
		for i := range 3 {
			if err := h.Calls(call{"demo.echo", `{"text":"new"}`, run, fmt.Sprint("k", i)}); err != nil {
				t.Fatal(err)
			}
		}
		s.step("wait for the note", s.Until("new, show", false))
		after, err := Eval[[]row](s.Tab, rowsOf)
		if s.step("see the rows again", err); !slices.Equal(before, after) {
			t.Errorf("on %s the rows were %v and are %v", list, before, after)
		}
		look(t, s.Tab, axe, list+" with its note", Looks)
		s.step("show what is new", s.press(`//main//p[@role="status"]//a`))
		s.says(run)
	}
}
