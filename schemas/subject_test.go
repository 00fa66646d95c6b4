package schemas_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tollgate/schemas"
)

var (
	tenants = rapid.StringMatching(`[a-z0-9_-]{1,32}`)
	tools   = rapid.StringMatching(`[A-Za-z0-9_-]{1,19}(\.[A-Za-z0-9_-]{1,19}){0,7}`)
	calls   = rapid.StringMatching(`[0-9a-v]{26}`)
)

// What is built is read back, with tools of any number of segments.
func TestSubjectsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := schemas.NewSubjects(rapid.SampledFrom([]string{"", "a.b", "retry", "do"}).Draw(t, "prefix"))
		if err != nil {
			t.Fatal(err)
		}
		tenant, tool, call := tenants.Draw(t, "tenant"), tools.Draw(t, "tool"), calls.Draw(t, "call")
		lane := rapid.SampledFrom([]schemas.Lane{schemas.Calls, schemas.Jobs}).Draw(t, "lane")
		for subject, want := range map[string]schemas.Lane{
			s.Submit(lane, tenant, tool):      lane,
			s.Retry(lane, tenant, call, tool): lane,
			s.Do(tenant, tool):                schemas.Calls,
		} {
			gotLane, gotTenant, gotTool, err := s.ParseSubmit(subject)
			if err != nil || gotLane != want || gotTenant != tenant || gotTool != tool {
				t.Fatalf("%s: %s %s %s, %v", subject, gotLane, gotTenant, gotTool, err)
			}
		}
		l := schemas.LetterSubject{
			Tenant: tenant, Reason: rapid.SampledFrom(schemas.Reasons).Draw(t, "reason"), Tool: tool, Call: call,
			Generation: rapid.IntRange(0, 1<<30).Draw(t, "generation"),
		}
		got, err := s.ParseLetter(s.Letter(l.Tenant, l.Reason, l.Tool, l.Call, l.Generation))
		if err != nil || got != l {
			t.Fatalf("letter %+v became %+v, %v", l, got, err)
		}
	})
}

// Other subjects are errors; illegal names come back with theirs.
func TestParseSubmitRefuses(t *testing.T) {
	s, _ := schemas.NewSubjects("")
	for subject, field := range map[string]string{
		"other.calls.default.x":                             "subject",
		"tollgate":                                          "subject",
		"tollgate.calls.default":                            "subject",
		"tollgate.results.default.run":                      "subject",
		"tollgate.retry.calls.default.call":                 "subject",
		"tollgate.retry.do.default.call.x":                  "subject",
		"tollgate.retry.retry.default.call.x":               "subject",
		"tollgate.calls.Default.x":                          "tenant",
		"tollgate.calls." + strings.Repeat("t", 33) + ".x":  "tenant",
		"tollgate.calls.default.a=b":                        "tool",
		"tollgate.calls.default.a.b.c.d.e.f.g.h.i":          "tool",
		"tollgate.calls.default." + strings.Repeat("x", 65): "tool",
		"tollgate.calls.default." + strings.Repeat(strings.Repeat("x", 53)+".", 3) + "x": "tool",
	} {
		_, _, _, err := s.ParseSubmit(subject)
		m, ok := err.(*schemas.Malformed)
		if !ok || m.Field != field {
			t.Errorf("%s: got %v, want malformed %s", subject, err, field)
		}
	}
	if _, _, tool, _ := s.ParseSubmit("tollgate.calls.default.a=b"); tool != "a=b" {
		t.Errorf("an illegal tool name came back as %q", tool)
	}
}

// One letter has one subject: other spellings of the generation are no letters.
func TestParseLetterRefuses(t *testing.T) {
	s, _ := schemas.NewSubjects("")
	for _, subject := range []string{
		"tollgate.dlq.t.failed.x.call", "tollgate.dlq.t.failed.x.call.-1", "tollgate.dlq.t.failed.x.call.+1",
		"tollgate.dlq.t.failed.x.call.01", "tollgate.dlq.t.failed.x.call.one", "tollgate.calls.t.failed.x.call.1", "",
	} {
		if l, err := s.ParseLetter(subject); err == nil {
			t.Errorf("%q was read as %+v", subject, l)
		}
	}
}

func TestNewSubjectsRefuses(t *testing.T) {
	for _, prefix := range []string{"a.", ".a", "a b", "a.>", "*", "a.b.c.d.e", strings.Repeat("x", 65)} {
		if _, err := schemas.NewSubjects(prefix); err == nil {
			t.Errorf("prefix %q was accepted", prefix)
		}
	}
}
