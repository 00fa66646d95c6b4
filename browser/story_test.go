package browser

import (
	"fmt"
	"strings"
	"testing"
)

// teller tells a story in a page: a step that fails ends the test.
type teller struct {
	*testing.T
	*Tab
}

func (s teller) step(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

func (s teller) visit(address string) {
	s.Helper()
	status, err := s.Go(address)
	if err == nil && status != 200 {
		err = fmt.Errorf("it answers %d", status)
	}
	s.step("go to "+address, err)
}

func (s teller) says(texts ...string) {
	s.Helper()
	page, err := s.Text()
	s.step("read the page", err)
	for _, text := range texts {
		if !strings.Contains(page, text) {
			at, _ := s.Path()
			s.Fatalf("%s does not say %q; it says:\n%s", at, text, page)
		}
	}
}

// The whole story of an incident is told on the pages, by somebody who cannot or does
// not want to run scripts as well as by somebody whose pages keep themselves up to date:
// calls fail, they are one group, a replay is tried out on paper, a canary goes first,
// the others follow, all are resolved, and the audit knows who did it and why.
func TestAnIncidentFromBeginningToEnd(t *testing.T) {
	for name, script := range map[string]bool{"with JavaScript": true, "without": false} {
		t.Run(name, func(t *testing.T) { incident(t, script) })
	}
}

func incident(t *testing.T, script bool) {
	h := house(t)
	var calls []call
	for i := range 6 {
		calls = append(calls, call{"demo.flaky", `{"mode":"down"}`, "nightly", fmt.Sprint("night-", i)})
	}
	if err := h.Calls(calls...); err != nil {
		t.Fatal(err)
	}
	s := teller{t, h.tab(t, "operator", script)}
	if !script {
		ran, err := Eval[bool](s.Tab, `document.querySelector("footer .live:not([hidden])") !== null`)
		if s.step("see whether scripts run", err); ran {
			t.Fatal("the page's script runs; this is not the story without it")
		}
	}

	s.visit("/dead")
	s.says("6 dead letters in 1 group", "CALL_ATTEMPTS_EXHAUSTED")
	s.step("ask for a replay of the group", s.Follow("Replay…", "demo.flaky"))
	s.says("6 of 6", "the same tool, key and bytes as before")

	s.step("name a canary", s.Fill("canary", "2"))
	s.step("say why", s.Fill("why", "INC-412: flaky is back"))
	s.step("look again", s.Press("Look again with these"))
	s.says("2 first", "6 of 6")
	s.stillDead(h, 6)

	if err := h.Heal(); err != nil {
		t.Fatal(err)
	}
	s.step("replay", s.Press("Replay 6 dead letters"))
	s.step("wait for its end", s.Until("✓ done", !script))
	s.says("✓ 6", "which went well", "INC-412: flaky is back")

	s.visit("/dead")
	s.says("No dead letters")
	s.visit("/dead/list?state=resolved")
	s.says("resolved", "demo.flaky")
	s.stillDead(h, 0)
	s.visit("/audit?action=replays_create")
	s.says("✓ allowed", "INC-412: flaky is back")
	if out, err := h.Run("verify"); err != nil {
		t.Errorf("after the incident: %v\n%s", err, out)
	}
	if troubles := s.Troubles(); len(troubles) > 0 {
		t.Errorf("the browser says\n    %s", strings.Join(troubles, "\n    "))
	}
}

// stillDead fails unless so many letters are active, as the command line counts them.
func (s teller) stillDead(h *House, want int) {
	s.Helper()
	out, err := h.Run("dlq", "ls", "--json")
	s.step("count the letters", err)
	if got := strings.Count(out, `"letter_id"`) + strings.Count(out, `"died_at"`); got != want {
		s.Fatalf("%d letters are active, want %d:\n%s", got, want, out)
	}
}
