package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const flawed = `<!doctype html><html lang="en"><title>flawed</title><main><h1>Flawed</h1>
<img src="/nothing.png"><p style="color:#bbb;background:#fff">pale</p><div style="width:900px">wide</div></main>
<script>console.error("a complaint"); undefinedThing()</script></html>`

// The eyes that look at every page see: what is wrong with a page that is planted full of
// faults is found, each of it.
func TestWhatIsWrongIsSeen(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, flawed)
	}))
	t.Cleanup(site.Close)
	axe, err := ReadAxe()
	if err != nil {
		t.Fatal(err)
	}
	s := teller{t, stranger(t)}
	s.step("look narrowly", s.Look(Look{Width: 400}))
	s.visit(site.URL)
	wide, err := Eval[string](s.Tab, overflow)
	if s.step("measure", err); !strings.Contains(wide, "wide") {
		t.Errorf("that the page is too wide was not seen: %q", wide)
	}
	found, err := s.Axe(axe)
	s.step("run axe-core", err)
	for _, rule := range []string{"image-alt", "color-contrast"} {
		if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == rule }) {
			t.Errorf("axe-core did not find %s: %v", rule, found)
		}
	}
	troubles := strings.Join(s.Troubles(), "\n")
	for _, said := range []string{"a complaint", "undefinedThing", "nothing.png"} {
		if !strings.Contains(troubles, said) {
			t.Errorf("the browser's complaint of %s was not heard:\n%s", said, troubles)
		}
	}
}
