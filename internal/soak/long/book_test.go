package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"tollgate/internal/demo"
	"tollgate/schemas"
)

// The soak finds what it is there to find.
func TestTheBookFindsWhatIsWrong(t *testing.T) {
	s := step{lane: schemas.Calls, tool: "demo.wire", run: "soak-1/agent", key: "step-1"}
	outcome := func(id string, generation int, status schemas.Status, attempts ...schemas.Attempt) []byte {
		data, err := json.Marshal(schemas.Outcome{ID: id, Call: s.call(), Tool: s.tool, Run: s.run, Generation: generation, Status: status, Attempts: attempts})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, tc := range []struct {
		name, want string
		do         func(a *agents, w *watch)
	}{
		{"one outcome, twice delivered, then a replay's", "", func(a *agents, w *watch) {
			a.book.read(outcome("a", 0, schemas.Failed))
			a.book.read(outcome("a", 0, schemas.Failed))
			a.book.read(outcome("b", 1, schemas.Cancelled))
			a.book.read(outcome("a", 0, schemas.Failed)) // late
			if o := a.book.at(w, 1); o == nil || o.ID != "b" {
				t.Errorf("the last outcome is %+v", o)
			}
		}},
		{"two outcomes", "ended twice in one generation", func(a *agents, _ *watch) {
			a.book.read(outcome("a", 0, schemas.Succeeded))
			a.book.read(outcome("b", 0, schemas.Failed))
		}},
		{"a refusal is no outcome", "", func(a *agents, _ *watch) {
			a.book.read(outcome("a", 0, schemas.Failed))
			a.book.read(outcome("b", 0, schemas.Rejected))
		}},
		{"unreadable", "cannot be read", func(a *agents, _ *watch) { a.book.read([]byte("{")) }},
		{"paid nothing", "nothing was paid", func(a *agents, w *watch) {
			a.book.read(outcome("a", 0, schemas.Succeeded, schemas.Attempt{N: 1}))
			a.checkTools(s, a.book.at(w, 0))
		}},
	} {
		world, err := demo.Start(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		log, err := os.Create(t.TempDir() + "/faults")
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		a := &agents{book: newBook(log), world: world}
		tc.do(a, a.book.watch(s.call()))
		found := strings.Join(a.book.found(), "\n")
		if tc.want == "" && found != "" || !strings.Contains(found, tc.want) {
			t.Errorf("%s: found %q, want %q", tc.name, found, tc.want)
		}
	}
}
