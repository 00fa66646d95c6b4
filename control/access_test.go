package control_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// leastRoles is who may ask what, and what the audit calls it when somebody may not. A
// verb that is served and has no row fails the test: who may ask it is a decision.
var leastRoles = map[string]struct {
	role   control.Role
	action string // "": looking is not recorded
}{
	"status": {"viewer", ""}, "verify": {"viewer", ""}, "history": {"viewer", ""}, "settings": {"viewer", ""}, "audit.ls": {"viewer", ""},
	"calls.ls": {"viewer", ""}, "calls.show": {"viewer", ""}, "runs.ls": {"viewer", ""}, "runs.show": {"viewer", ""},
	"tools.ls": {"viewer", ""}, "tools.show": {"viewer", ""},
	"dlq.ls": {"viewer", ""}, "dlq.ids": {"viewer", ""}, "dlq.stats": {"viewer", ""}, "dlq.groups": {"viewer", ""}, "dlq.show": {"viewer", ""},
	"replays.plan": {"viewer", ""}, "replays.ls": {"viewer", ""}, "replays.show": {"viewer", ""}, "replays.items": {"viewer", ""},

	"cancel": {"operator", "cancel"}, "tools.pause": {"operator", "pause"}, "tools.resume": {"operator", "resume"},
	"dlq.replay": {"operator", "replay"}, "dlq.resolve": {"operator", "resolve"}, "dlq.discard": {"operator", "discard"}, "dlq.restore": {"operator", "restore"}, "dlq.note": {"operator", "note"},
	"replays.create": {"operator", "replays_create"}, "replays.pause": {"operator", "replays_pause"}, "replays.resume": {"operator", "replays_resume"}, "replays.cancel": {"operator", "replays_cancel"},

	"runs.grant": {"admin", "grant"}, "dlq.edit": {"admin", "edit"}, "dlq.purge": {"admin", "purge"}, "dlq.export": {"admin", "export"}, "dlq.import": {"admin", "import"},
	"backup": {"admin", "backup"}, "console.link": {"admin", "link"},
}

const lookUp = `  look.up: { function: tool, effect: read, policies: [quick] }
`

func world(t *testing.T, f function.Func) *worldtest.World {
	return worldtest.New(t, lookUp, map[string]function.Func{"tool": f})
}

// served asks the server itself for the verbs that it answers, and their subjects.
func served(t *testing.T, w *worldtest.World) map[string]string {
	t.Helper()
	m, err := w.NC.Request("$SRV.INFO.tollgate", nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Endpoints []struct{ Subject string }
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	verbs := map[string]string{}
	for _, e := range info.Endpoints {
		if verb, ok := strings.CutPrefix(e.Subject, "tollgate.ctl."); ok {
			verbs[verb] = e.Subject
		} else if e.Subject == "tollgate.cancel.*" {
			verbs[control.VerbCancel] = "tollgate.cancel.default"
		}
	}
	return verbs
}

// askAs sends a request with the roles given, and says whether they stood in its way.
func askAs(t *testing.T, w *worldtest.World, subject, body string, roles ...string) (control.Problem, bool) {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	m.Header[control.HeaderBy] = []string{"eve"}
	if roles != nil {
		m.Header[control.HeaderRole] = roles
	}
	a, err := w.NC.RequestMsg(m, 30*time.Second)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	var p control.Problem
	code := a.Header.Get(schemas.HeaderServiceErrorCode)
	if code != "" {
		if err := json.Unmarshal(a.Data, &p); err != nil {
			t.Fatalf("%s: %q: %v", subject, a.Data, err)
		}
	}
	return p, code == "403" && (strings.Contains(p.What, "needs the role") || strings.Contains(p.What, "is not a role"))
}

// A role is one in whatever case its header is written.
func TestARoleIsFoundInAnyCase(t *testing.T) {
	w := world(t, func(context.Context, dispatcher.Invocation) (any, error) { return "ok", nil })
	for _, header := range []string{"tollgate-role", "TOLLGATE-ROLE"} {
		m := nats.NewMsg("tollgate.ctl." + control.VerbPurge)
		m.Data = []byte("{}")
		m.Header[control.HeaderBy] = []string{"eve"}
		m.Header[header] = []string{string(control.Viewer)}
		a, err := w.NC.RequestMsg(m, 30*time.Second)
		if err != nil || a.Header.Get(schemas.HeaderServiceErrorCode) != "403" {
			t.Errorf("%s: %v %s", header, err, a.Data)
		}
	}
}

// A letter's ID that is none is said to be none, and is not looked for.
func TestALettersIDThatIsNone(t *testing.T) {
	w := world(t, func(context.Context, dispatcher.Invocation) (any, error) { return "ok", nil })
	for _, id := range []string{"x", "", "m*", strings.Repeat("m", 26) + ".-1", strings.Repeat("m", 26) + ".*", strings.Repeat("m", 26) + ".1.2", "m" + strings.Repeat("*", 25) + ".0", "m" + strings.Repeat(">", 30)} {
		for _, verb := range []string{control.VerbLetterShow, control.VerbReplay, control.VerbDiscard, control.VerbPurge, control.VerbEdit} {
			f := w.Refused(verb, control.IDQuery{ID: id})
			if f.Code != 400 && f.Code != 404 {
				t.Errorf("%s of %q: %d %s", verb, id, f.Code, f.What)
			}
		}
	}
}

func TestEveryVerbAsksForItsRole(t *testing.T) {
	w := world(t, func(context.Context, dispatcher.Invocation) (any, error) { return "ok", nil })
	verbs := served(t, w)
	var described []string
	for _, p := range control.Permissions() {
		described = append(described, p.Verb)
	}
	for verb, subject := range verbs {
		row, known := leastRoles[verb]
		if !known {
			t.Errorf("%s is served, and it is not said here who may ask it", verb)
			continue
		}
		if !slices.Contains(described, verb) {
			t.Errorf("%s is not among the permissions that people are shown", verb)
		}
		for _, role := range control.Roles {
			_, refused := askAs(t, w, subject, "{}", string(role))
			may := slices.Index(control.Roles, role) >= slices.Index(control.Roles, row.role)
			if refused == may {
				t.Errorf("%s as %s: refused %v", verb, role, refused)
			}
			if role.May(verb) != may {
				t.Errorf("%s as %s: a page would say that it may: %v", verb, role, !may)
			}
		}
		if _, refused := askAs(t, w, subject, "{}"); refused {
			t.Errorf("%s without a role was refused: the server's permissions decide about that", verb)
		}
		for _, roles := range [][]string{{"root"}, {""}, {"Admin"}, {"admin", "viewer-of-nothing"}} {
			if _, refused := askAs(t, w, subject, "{}", roles...); !refused {
				t.Errorf("%s as %q was not refused", verb, roles)
			}
		}
	}
	for verb := range leastRoles {
		if verbs[verb] == "" {
			t.Errorf("%s has a row here and is not served", verb)
		}
	}
	for _, row := range leastRoles {
		if row.action != "" && !slices.ContainsFunc(w.Audit(row.action), func(a dedupe.Audit) bool {
			return a.By == "eve" && !a.Allowed && strings.Contains(a.Detail, "asked as viewer")
		}) {
			t.Errorf("no refused %s in the audit", row.action)
		}
	}
	w.Verify()
}

// A refusal says what it was about, and nothing has changed.
func TestWhatARoleMayNotIsRecordedAndNotDone(t *testing.T) {
	w := world(t, func(context.Context, dispatcher.Invocation) (any, error) { return nil, worldtest.Broken() })
	m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k"}
	w.Publish(m)
	w.Outcome(m, time.Minute)
	id := dedupe.LetterID(worldtest.CallID(m), 0)
	w.Until(time.Minute, "the letter is there", func() bool { return len(w.LettersOf("r")) == 1 })
	for _, try := range []struct{ verb, body, role, action, target, why, tenant string }{
		{control.VerbDiscard, `{"id":"` + id[:12] + `","why":"I want to"}`, "viewer", "discard", id, "I want to", ""},
		{control.VerbPurge, `{"id":"` + id + `"}`, "operator", "purge", id, "", ""},
		{control.VerbRunGrant, `{"tenant":"default","run":"r","attempts":5,"why":"more"}`, "operator", "grant", "run r", "more", "default"},
		{control.VerbToolPause, `{"tool":"look.up"}`, "viewer", "pause", "tool look.up", "", ""},
		{control.VerbNote, `{"id":"g-12345","text":"x"}`, "viewer", "note", "group g-12345", "", ""},
		{control.VerbReplayPause, `{"name":"nightly"}`, "viewer", "replays_pause", "replay nightly", "", ""},
		{control.VerbBackup, `{"path":"/etc/passwd"}`, "operator", "backup", "/etc/passwd", "", ""},
		{control.VerbConsoleLink, `{}`, "operator", "link", "console", "", ""},
		{control.VerbCancel, `{"run":"r","reason":"stop"}`, "viewer", "cancel", "run r", "stop", "default"},
		{control.VerbDiscard, `{"id":7,"tenant":"../x","why":"` + strings.Repeat("w", 5000) + `"}`, "viewer", "discard", "", strings.Repeat("w", 300) + "…", ""},
	} {
		subject := "tollgate.ctl." + try.verb
		if try.verb == control.VerbCancel {
			subject = "tollgate.cancel.default"
		}
		p, refused := askAs(t, w, subject, try.body, try.role)
		if !refused || p.Try == "" {
			t.Errorf("%s as %s: %+v", try.verb, try.role, p)
		}
		if !slices.ContainsFunc(w.Audit(try.action), func(a dedupe.Audit) bool {
			return !a.Allowed && a.By == "eve" && a.Target == try.target && a.Why == try.why && a.Tenant == try.tenant && strings.HasSuffix(a.Detail, "asked as "+try.role)
		}) {
			t.Errorf("%s: no entry about %q among %+v", try.verb, try.target, w.Audit(try.action))
		}
	}
	if l := w.Letter(id); l.State != schemas.LetterActive || l.Note != "" {
		t.Errorf("the letter is %s, note %q", l.State, l.Note)
	}
	if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); len(st.Paused) != 0 {
		t.Errorf("paused: %v", st.Paused)
	}
	w.Verify()
}

// The role travels with a request and is nothing of a letter's.
func TestAnImportedLetterDoesNotKeepTheImportersRole(t *testing.T) {
	w := world(t, func(context.Context, dispatcher.Invocation) (any, error) { return nil, worldtest.Broken() })
	m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k"}
	w.Publish(m)
	w.Outcome(m, time.Minute)
	id := dedupe.LetterID(worldtest.CallID(m), 0)
	w.Until(time.Minute, "the letter is there", func() bool { return len(w.LettersOf("r")) == 1 })
	admin := &control.Client{NATS: w.NC, Subjects: w.Ctl.Subjects, By: "ann", Role: control.Admin}
	query, _ := json.Marshal(control.IDQuery{ID: id})
	parcel, err := admin.Send(t.Context(), control.VerbExport, nats.Header{}, query)
	if err != nil {
		t.Fatal(err)
	}
	worldtest.Ask[control.Done](w, control.VerbDiscard, control.LetterQuery{ID: id})
	w.Purge("TOLLGATE_DLQ", "tollgate.dlq.>")
	h := parcel.Header
	h[control.HeaderWhy] = []string{"back again"}
	if _, err := admin.Send(t.Context(), control.VerbImport, h, parcel.Data); err != nil {
		t.Fatal(err)
	}
	stream, err := w.JS.Stream(t.Context(), "TOLLGATE_DLQ")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := stream.GetLastMsgForSubject(t.Context(), "tollgate.dlq.>")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{control.HeaderRole, control.HeaderBy, control.HeaderWhy} {
		if raw.Header.Get(name) != "" {
			t.Errorf("the letter says %s: %s", name, raw.Header.Get(name))
		}
	}
}
