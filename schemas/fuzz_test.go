package schemas_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tollgate/schemas"
)

// Whatever arrives, a request that is accepted keeps every promise the rest of the
// system builds on, and one that is not says which field.
func FuzzParseRequest(f *testing.F) {
	f.Add("run_42/researcher", "k", "2026-11-30T12:00:00Z", "Tollgate-Run-Attempts", "9")
	f.Add("r\r\n", "\x00", "2026-11-30T12:00:00+99:99", "tollgate-run-id", "twice")
	f.Add("a/b/c/d/e/f/g/h/i", "ключ", "1969-12-31T23:59:59-12:00", "Nats-Msg-Id", "x")
	f.Fuzz(func(t *testing.T, run, key, deadline, name, value string) {
		h := schemas.Header{schemas.HeaderRun: {run}, schemas.HeaderKey: {key}, schemas.HeaderDeadline: {deadline}}
		h[name] = append(h[name], value)
		r, err := parse(h)
		var m *schemas.Malformed
		if err != nil {
			if !errors.As(err, &m) || m.Field == "" || m.Problem == "" {
				t.Fatalf("%v names no field", err)
			}
			return
		}
		switch {
		case !schemas.ValidRun(r.Run), strings.ContainsAny(schemas.Root(r.Run), "/.*> \r\n"):
			t.Errorf("run %q", r.Run)
		case !schemas.ValidKey(r.Key):
			t.Errorf("key %q", r.Key)
		case r.Deadline.IsZero(), r.Deadline.Location() != time.UTC, !time.Unix(0, r.Deadline.UnixNano()).Equal(r.Deadline):
			t.Errorf("deadline %v", r.Deadline)
		case r.Header.Size() > schemas.MaxHeaderBytes:
			t.Errorf("%d bytes of headers", r.Header.Size())
		}
		for k := range r.Header {
			if strings.HasPrefix(strings.ToLower(k), "nats-") {
				t.Errorf("%q travels on", k)
			}
		}
	})
}

// A subject that is accepted is one we would have built.
func FuzzParseSubmit(f *testing.F) {
	for _, s := range []string{"tollgate.calls.default.crm.find", "tollgate.retry.jobs.t.c.x", "tollgate.do.t.x", "tollgate.retry.do.t.c.x", "tollgate.calls..", "tollgate."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		s, _ := schemas.NewSubjects("")
		lane, tenant, tool, err := s.ParseSubmit(subject)
		if err != nil {
			return
		}
		if !schemas.ValidTenant(tenant) || !schemas.ValidTool(tool) {
			t.Fatalf("%q: tenant %q, tool %q", subject, tenant, tool)
		}
		rest, retry := strings.CutPrefix(subject, "tollgate.retry."+string(lane)+"."+tenant+".")
		call, _, _ := strings.Cut(rest, ".")
		built := subject == s.Submit(lane, tenant, tool) || subject == s.Do(tenant, tool) && lane == schemas.Calls ||
			retry && subject == s.Retry(lane, tenant, call, tool)
		if !built {
			t.Errorf("%q was read as lane %q, tenant %q, tool %q", subject, lane, tenant, tool)
		}
	})
}

func FuzzParseLetter(f *testing.F) {
	for _, s := range []string{"tollgate.dlq.t.failed.crm.find.c.0", "tollgate.dlq.t.failed.x.c.+1", "tollgate.dlq.....", "tollgate.dlq.t.failed.c.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		s, _ := schemas.NewSubjects("")
		l, err := s.ParseLetter(subject)
		if err == nil && s.Letter(l.Tenant, l.Reason, l.Tool, l.Call, l.Generation) != subject {
			t.Errorf("%q was read as %+v", subject, l)
		}
	})
}
