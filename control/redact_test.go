package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const secretCard = "4111111111111111"

// A tool that repeats what it was given, in its error: whatever an operator's question
// is answered with, the card is not in it. What is stored is whole.
func TestWhatIsHiddenIsInNoAnswer(t *testing.T) {
	tools := `  pay: { function: tool, effect: read, policies: [quick], redact: [/items/*/card] }
  other: { function: tool, effect: read, policies: [quick] }
`
	w := worldtest.New(t, tools, map[string]function.Func{"tool": func(_ context.Context, in dispatcher.Invocation) (any, error) {
		return nil, function.Stop(schemas.DownstreamRejected, "DECLINED", "declined: "+string(in.Arguments))
	}})
	body := fmt.Sprintf(`{"amount":12345678901234567890,"items":[{"n":1},{"card":%q,"n":2}]}`, secretCard)
	m := worldtest.Msg{Tool: "pay", Run: "r", Key: "k", Body: body, Header: map[string]string{"X-Card": secretCard}}
	w.Publish(m)
	w.Outcome(m, time.Minute)
	id := dedupe.LetterID(worldtest.CallID(m), 0)
	w.Until(time.Minute, "the letter is there", func() bool { return len(w.LettersOf("r")) == 1 })

	l := w.Letter(id)
	if want := strings.Replace(body, `"`+secretCard+`"`, `"`+deadletter.Mask+`"`, 1); l.Arguments != want {
		t.Errorf("arguments %s\nwant %s", l.Arguments, want)
	}
	for verb, q := range map[string]any{
		control.VerbLetterShow: control.IDQuery{ID: id}, control.VerbLetterList: deadletter.Filter{}, control.VerbGroups: control.GroupsQuery{},
		control.VerbCallShow: control.IDQuery{ID: id}, control.VerbCallsList: control.CallsQuery{}, control.VerbRunShow: control.RunQuery{Run: "r"},
	} {
		answer := worldtest.Ask[json.RawMessage](w, verb, q)
		if strings.Contains(string(answer), secretCard) {
			t.Errorf("%s shows it: %s", verb, answer)
		}
		if verb != control.VerbCallsList && verb != control.VerbRunShow && !strings.Contains(string(answer), deadletter.Mask) {
			t.Errorf("%s does not say that something is hidden: %s", verb, answer)
		}
	}
	gs := worldtest.Ask[control.GroupsPage](w, control.VerbGroups, control.GroupsQuery{By: "code"}) // spans tools
	if len(gs.Groups) != 1 || strings.Contains(gs.Groups[0].Error, secretCard) {
		t.Errorf("groups by code: %+v", gs.Groups)
	}
	stored, err := w.Ctl.Send(t.Context(), control.VerbExport, map[string][]string{}, []byte(`{"id":"`+id+`"}`))
	if err != nil || string(stored.Data) != body {
		t.Errorf("stored is %s, %v", stored.Data, err)
	}
	other := m
	other.Tool, other.Key = "other", "k2"
	w.Publish(other)
	w.Outcome(other, time.Minute)
	if shown := w.Letter(dedupe.LetterID(worldtest.CallID(other), 0)); shown.Arguments != body || !strings.Contains(shown.Message, secretCard) {
		t.Errorf("a tool that hides nothing: %s", shown.Arguments)
	}
	mistyped := m
	mistyped.Tool, mistyped.Key, mistyped.Lane = "pya", "k3", schemas.Jobs
	w.Publish(mistyped)
	w.Until(time.Minute, "a letter of a tool that is none", func() bool { return len(w.LettersOf("r")) == 3 })
	for _, l := range w.LettersOf("r") {
		if l.Tool == "pya" && strings.Contains(w.Letter(l.ID).Arguments, secretCard) {
			t.Errorf("under a mistyped name it is shown: %+v", l)
		}
	}
}
