package control_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
)

func TestSettingsSayWhereEachValueComesFrom(t *testing.T) {
	t.Setenv("TOLLGATE_LEDGER_RETENTION", "200h")
	t.Setenv("ANN_TOKEN", "0123456789abcdef")
	w := world(t, func(context.Context, dispatcher.Invocation) (any, error) { return "ok", nil })
	w.Again(func() {
		w.Config += "http: { listen: \"127.0.0.1:0\", users: { ann: { role: viewer, token: \"${ANN_TOKEN}\" }, bob: { role: admin, token: literal-literal-literal } } }\n"
		w.Config = strings.Replace(w.Config, "policies: [quick] }", "policies: [quick], redact: [/card] }", 1)
	})
	all := worldtest.Ask[control.Settings](w, control.VerbSettings, control.SettingsQuery{})
	for path, want := range map[string]control.Setting{
		"ledger.retention":      {Value: "200h", Source: "environment", Where: "TOLLGATE_LEDGER_RETENTION"},
		"log.level":             {Value: "info", Source: "default"},
		"http.users.ann.token":  {Value: `"${ANN_TOKEN}"`, Source: "environment", Where: "ANN_TOKEN"},
		"http.users.bob.token":  {Value: `"********"`, Source: "file", Where: "test.yaml:"},
		"tools.look.up.effect":  {Value: "read", Source: "file", Where: "test.yaml:"},
		"tools.look.up.redact":  {Value: `[/card]`, Source: "file", Where: "test.yaml:"},
		"limits.unserved_grace": {Value: "5s", Source: "file", Where: "test.yaml:3"},
		"limits.max_body":       {Value: "960KiB", Source: "default"},
	} {
		i := slices.IndexFunc(all.Values, func(s control.Setting) bool { return s.Path == path })
		if i < 0 {
			t.Errorf("no %s", path)
			continue
		}
		if got := all.Values[i]; got.Value != want.Value || got.Source != want.Source || !strings.HasPrefix(got.Where, want.Where) {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	for _, v := range all.Values {
		if strings.Contains(v.Value, "literal-literal") || strings.Contains(v.Value, "0123456789abcdef") {
			t.Errorf("it shows a token: %+v", v)
		}
	}
	if d := all.Users; !slices.Equal(d, []string{"ann (viewer)", "bob (admin)"}) || !slices.Equal(all.Redact["look.up"], []string{"/card"}) {
		t.Errorf("users %v, redact %v", d, all.Redact)
	}
	if i := slices.IndexFunc(all.Clocks, func(c control.Clock) bool { return c.Path == "ledger.retention" && c.For == 200*time.Hour }); i < 0 {
		t.Errorf("clocks: %+v", all.Clocks)
	}
	some := worldtest.Ask[control.Settings](w, control.VerbSettings, control.SettingsQuery{Under: "ledger", Source: "environment"})
	if len(some.Values) != 1 || some.Values[0].Path != "ledger.retention" {
		t.Errorf("under ledger from the environment: %+v", some.Values)
	}
	if p := w.Refused(control.VerbSettings, control.SettingsQuery{Source: "nowhere"}); p.Code != 400 {
		t.Errorf("an unknown source: %+v", p)
	}
}

// A link is recorded, has the role that was asked for, and cannot be had where there is
// no console.
func TestALinkToTheConsoleIsRecorded(t *testing.T) {
	w := world(t, func(context.Context, dispatcher.Invocation) (any, error) { return "ok", nil })
	p := w.Refused(control.VerbConsoleLink, control.LinkQuery{})
	if p.Code != 409 || !strings.Contains(p.What, "no listener") || !strings.Contains(p.Try, "http: {}") {
		t.Errorf("without a listener: %+v", p)
	}
	if n := len(w.Audit("link")); n != 0 {
		t.Errorf("%d links in the audit", n)
	}
	listen := func(section string) {
		w.Again(func() { w.Config = strings.Split(w.Config, "http:")[0] + section })
	}
	listen("http: { listen: \"0.0.0.0:0\", expose: true }\n")
	if p := w.Refused(control.VerbConsoleLink, control.LinkQuery{}); p.Code != 409 || !strings.Contains(p.Try, "http.users") {
		t.Errorf("exposed without users: %+v", p)
	}
	listen("http: { listen: \"127.0.0.1:0\" }\n")
	if p := w.Refused(control.VerbConsoleLink, control.LinkQuery{Role: "root"}); p.Code != 400 {
		t.Errorf("an unknown role: %+v", p)
	}
	link := worldtest.Ask[control.ConsoleLink](w, control.VerbConsoleLink, control.LinkQuery{Role: control.Viewer, Why: "to show Bob"})
	if !strings.HasPrefix(link.URL, w.App.HTTPURL()+"/signin?link=") || link.Role != control.Viewer || time.Until(link.Expires) > control.LinkFor {
		t.Errorf("%+v", link)
	}
	a := w.Audit("link")
	if len(a) != 1 || a[0].By != "test" || !a[0].Allowed || a[0].Target != "console" || a[0].Detail != "role=viewer" || a[0].Why != "to show Bob" {
		t.Errorf("audit: %+v", a)
	}
	var refused *control.Failure
	operator := &control.Client{NATS: w.NC, Subjects: w.Ctl.Subjects, By: "bob", Role: control.Operator}
	if err := operator.Ask(t.Context(), control.VerbConsoleLink, control.LinkQuery{}, &link); !errors.As(err, &refused) || refused.Code != 403 {
		t.Errorf("as operator: %v", err)
	}
	listen("http: { listen: \"127.0.0.1:0\", public_url: https://tollgate.example.com/, users: { ann: { role: viewer, token: 0123456789abcdef-a } } }\n")
	link = worldtest.Ask[control.ConsoleLink](w, control.VerbConsoleLink, control.LinkQuery{})
	if !strings.HasPrefix(link.URL, "https://tollgate.example.com/signin?link=") || link.Role != control.Admin {
		t.Errorf("with a public address: %+v", link)
	}
}
