package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/tools/function"
)

// A word that there is not is refused, with those that there are: a list of nothing
// would say that nothing happened.
func TestAListRefusesWordsThatThereAreNot(t *testing.T) {
	const actions = "backup cancel discard edit expire export grant import link note pause purge replay replays_canary replays_cancel replays_create " +
		"replays_finish replays_pause replays_resume replays_stop resolve restore resume"
	if got := strings.Join(control.AuditActions, " "); got != actions {
		t.Errorf("the actions are %s\nwant %s", got, actions)
	}
	echo := map[string]function.Func{"echo": func(context.Context, dispatcher.Invocation) (any, error) { return "", nil }}
	worldtest.Bubble(t, "  echo: { function: echo, effect: read, policies: [quick] }\n", echo, func(t *testing.T, w *worldtest.World) {
		for _, tc := range []struct {
			verb  string
			query any
			words []string // none: it is answered
		}{
			{control.VerbCallsList, control.CallsQuery{State: "bogus"}, control.CallStates},
			{control.VerbCallsList, control.CallsQuery{Status: "bogus"}, control.CallStatuses},
			{control.VerbCallsList, control.CallsQuery{State: "dead", Status: "exhausted"}, nil},
			{control.VerbAuditList, control.AuditQuery{Action: "replay,bogus"}, control.AuditActions},
			{control.VerbAuditList, control.AuditQuery{Action: strings.Join(control.AuditActions, ",")}, nil},
			{control.VerbAuditList, control.AuditQuery{Action: "*"}, nil},
		} {
			err := w.Ctl.Ask(t.Context(), tc.verb, tc.query, new(json.RawMessage))
			switch {
			case tc.words == nil && err != nil:
				t.Errorf("%+v: %v", tc.query, err)
			case tc.words != nil && (err == nil || !strings.Contains(err.Error(), `"bogus"`) || !strings.Contains(err.Error(), strings.Join(tc.words, ", "))):
				t.Errorf("%+v: %v, want the words there are", tc.query, err)
			}
		}
	})
}

// What is not there is named once.
func TestWhatIsNotThereIsSaidOnce(t *testing.T) {
	echo := map[string]function.Func{"echo": func(context.Context, dispatcher.Invocation) (any, error) { return "", nil }}
	worldtest.Bubble(t, "  echo: { function: echo, effect: read, policies: [quick] }\n", echo, func(t *testing.T, w *worldtest.World) {
		for verb, tc := range map[string]struct {
			query any
			want  string
		}{
			control.VerbToolShow:  {control.ToolQuery{Tool: "nope.tool"}, "tool nope.tool is not in the catalogue"},
			control.VerbToolPause: {control.ToolQuery{Tool: "nope.tool"}, "tool nope.tool is not in the catalogue"},
			control.VerbRunShow:   {control.RunQuery{Run: "nope"}, "run nope of tenant default is not in the ledger"},
			control.VerbRunGrant:  {control.GrantQuery{Run: "nope", Attempts: 1}, "run nope of tenant default is not in the ledger"},
			control.VerbCallShow:  {control.IDQuery{ID: "nope"}, "call nope is not in the ledger"},
		} {
			err := w.Ctl.Ask(t.Context(), verb, tc.query, new(json.RawMessage))
			var f *control.Failure
			if !errors.As(err, &f) || f.Code != 404 || f.What != tc.want {
				t.Errorf("%s: %v, want %s", verb, err, tc.want)
			}
		}
	})
}
