package schemas_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/schemas"
)

var deadline = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// valid is the least an agent sends.
func valid() schemas.Header {
	return schemas.Header{
		schemas.HeaderRun:      {"run_42/researcher"},
		schemas.HeaderKey:      {"run_42:7"},
		schemas.HeaderDeadline: {"2026-11-30T12:00:00Z"},
	}
}

func parse(h schemas.Header) (schemas.Request, error) {
	return schemas.ParseRequest(schemas.Calls, "default", "crm.find", h, []byte(`{"a":1}`), schemas.Defaults{})
}

func TestParseRequestReadsEveryHeader(t *testing.T) {
	h := valid()
	maps.Copy(h, schemas.Header{
		"tollgate-run-attempts":      {"9"}, // any spelling
		schemas.HeaderRunSideEffects: {"0"},
		schemas.HeaderRunDeadline:    {"2026-11-30T13:00:00.5+02:00"},
		schemas.HeaderPolicy:         {"fast"},
		schemas.HeaderToolCallID:     {"toolu_01"},
		schemas.HeaderVersion:        {"1"},
		schemas.HeaderTraceParent:    {"00-1-2-3"},
		schemas.HeaderMessageID:      {"random"},
		"Nats-Schedule":              {"@at never"},
		"tollgate-attempt":           {"99"}, // forged
		schemas.HeaderSpentAttempts:  {"0"},  // forged
		"X-Own":                      {"a", "b"},
	})
	r, err := parse(h)
	if err != nil {
		t.Fatal(err)
	}
	attempts, effects, runDeadline := 9, 0, time.Date(2026, 11, 30, 11, 0, 0, 5e8, time.UTC)
	want := schemas.Request{
		Lane: schemas.Calls, Tenant: "default", Tool: "crm.find", Run: "run_42/researcher", Key: "run_42:7", Deadline: deadline,
		Limits: schemas.RunLimits{Attempts: &attempts, SideEffects: &effects, Deadline: &runDeadline},
		Policy: "fast", ToolCallID: "toolu_01", Body: []byte(`{"a":1}`), Stripped: 2,
	}
	want.Header = h.Clone()
	for _, gone := range []string{schemas.HeaderMessageID, "Nats-Schedule", "tollgate-attempt", schemas.HeaderSpentAttempts} {
		delete(want.Header, gone)
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// What breaks the contract is refused, and the error names the field.
func TestParseRequestRefuses(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tc := range []struct {
		name   string
		header string
		values []string // nil: removed
		field  string   // "": accepted
	}{
		{"run missing", schemas.HeaderRun, nil, schemas.HeaderRun},
		{"run empty", schemas.HeaderRun, []string{""}, schemas.HeaderRun},
		{"run twice", schemas.HeaderRun, []string{"a", "a"}, schemas.HeaderRun},
		{"run with a line break", schemas.HeaderRun, []string{"a\r\nX: y"}, schemas.HeaderRun},
		{"run with a dot", schemas.HeaderRun, []string{"a.b"}, schemas.HeaderRun},
		{"run with a wildcard", schemas.HeaderRun, []string{"*"}, schemas.HeaderRun},
		{"run with an empty segment", schemas.HeaderRun, []string{"a//b"}, schemas.HeaderRun},
		{"run ends in a slash", schemas.HeaderRun, []string{"a/"}, schemas.HeaderRun},
		{"run ends in a newline", schemas.HeaderRun, []string{"a\n"}, schemas.HeaderRun},
		{"run of eight", schemas.HeaderRun, []string{"a/b/c/d/e/f/g/h"}, ""},
		{"run of nine", schemas.HeaderRun, []string{"a/b/c/d/e/f/g/h/i"}, schemas.HeaderRun},
		{"segment of 128", schemas.HeaderRun, []string{long[:128]}, ""},
		{"segment of 129", schemas.HeaderRun, []string{long[:129]}, schemas.HeaderRun},
		{"key missing", schemas.HeaderKey, nil, schemas.HeaderKey},
		{"key of 255", schemas.HeaderKey, []string{long[:255]}, ""},
		{"key of 256", schemas.HeaderKey, []string{long[:256]}, schemas.HeaderKey},
		{"key with a space", schemas.HeaderKey, []string{"a b"}, schemas.HeaderKey},
		{"key not ASCII", schemas.HeaderKey, []string{"schlüssel"}, schemas.HeaderKey},
		{"deadline missing", schemas.HeaderDeadline, nil, schemas.HeaderDeadline},
		{"deadline without offset", schemas.HeaderDeadline, []string{"2026-11-30T12:00:00"}, schemas.HeaderDeadline},
		{"deadline in seconds", schemas.HeaderDeadline, []string{"1796040000"}, schemas.HeaderDeadline},
		{"deadline with an offset", schemas.HeaderDeadline, []string{"2026-11-30T14:00:00+02:00"}, ""},
		{"deadline with nanoseconds", schemas.HeaderDeadline, []string{"2026-11-30T12:00:00.000000001Z"}, ""},
		{"deadline beyond int64", schemas.HeaderDeadline, []string{"9999-11-30T12:00:00Z"}, schemas.HeaderDeadline},
		{"deadline before computers", schemas.HeaderDeadline, []string{"0001-01-01T00:00:00Z"}, schemas.HeaderDeadline},
		{"version 2", schemas.HeaderVersion, []string{"2"}, schemas.HeaderVersion},
		{"version twice", schemas.HeaderVersion, []string{"1", "1"}, schemas.HeaderVersion},
		{"attempts not a number", schemas.HeaderRunAttempts, []string{"many"}, schemas.HeaderRunAttempts},
		{"attempts negative", schemas.HeaderRunAttempts, []string{"-1"}, schemas.HeaderRunAttempts},
		{"attempts too large", schemas.HeaderRunAttempts, []string{"2147483648"}, schemas.HeaderRunAttempts},
		{"side effects a fraction", schemas.HeaderRunSideEffects, []string{"1.5"}, schemas.HeaderRunSideEffects},
		{"run deadline empty", schemas.HeaderRunDeadline, []string{""}, schemas.HeaderRunDeadline},
		{"run deadline twice", schemas.HeaderRunDeadline, []string{"2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z"}, schemas.HeaderRunDeadline},
		{"run deadline long ago", schemas.HeaderRunDeadline, []string{"1970-01-01T00:00:00.000000001Z"}, ""},
		{"tool call ID of 256", schemas.HeaderToolCallID, []string{long[:256]}, ""},
		{"tool call ID of 257", schemas.HeaderToolCallID, []string{long[:257]}, schemas.HeaderToolCallID},
		{"headers too large", "X-Own", []string{strings.Repeat("x", schemas.MaxHeaderBytes)}, "headers"},
		{"the dispatcher's own do not count", schemas.HeaderOutcome, []string{strings.Repeat("x", schemas.MaxHeaderBytes)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := valid()
			delete(h, tc.header)
			if tc.values != nil {
				h[tc.header] = tc.values
			}
			r, err := parse(h)
			if tc.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				if tc.header == schemas.HeaderRunDeadline && r.Limits.Deadline == nil {
					t.Error("a deadline that was named is absent")
				}
				return
			}
			var m *schemas.Malformed
			if !errors.As(err, &m) || m.Field != tc.field {
				t.Errorf("got %v, want malformed %s", err, tc.field)
			}
		})
	}
}

// Two spellings of one header are the header twice, unless one is the exact one.
func TestSpellings(t *testing.T) {
	h := valid()
	delete(h, schemas.HeaderKey)
	h["idempotency-key"] = []string{"one"}
	if r, err := parse(h); err != nil || r.Key != "one" {
		t.Errorf("another spelling: key %q, %v", r.Key, err)
	}
	h["IDEMPOTENCY-KEY"] = []string{"two"}
	var m *schemas.Malformed
	if _, err := parse(h); !errors.As(err, &m) || m.Field != schemas.HeaderKey {
		t.Errorf("two spellings: got %v, want malformed", err)
	}
	h[schemas.HeaderKey] = []string{"exact"}
	if r, err := parse(h); err != nil || r.Key != "exact" {
		t.Errorf("the exact spelling: key %q, %v", r.Key, err)
	}
	h.Set(schemas.HeaderKey, "set")
	if got := h.Lookup("idempotency-KEY"); len(got) != 1 || got[0] != "set" {
		t.Errorf("after Set there is %q, want one spelling", got)
	}
}

// The endpoint fills what is absent and nothing else.
func TestDefaults(t *testing.T) {
	d := schemas.Defaults{
		Deadline: deadline.Add(time.Hour),
		Key:      func(tool, run string, body []byte) string { return tool + "!" + run + "!" + string(body) },
	}
	r, err := schemas.ParseRequest(schemas.Jobs, "t", "x", schemas.Header{schemas.HeaderRun: {"r"}}, []byte("{}"), d)
	if err != nil || r.Key != "x!r!{}" || !r.Deadline.Equal(d.Deadline) {
		t.Errorf("filled key %q, deadline %v, %v", r.Key, r.Deadline, err)
	}
	r, err = schemas.ParseRequest(schemas.Jobs, "t", "x", valid(), nil, d)
	if err != nil || r.Key != "run_42:7" || !r.Deadline.Equal(deadline) {
		t.Errorf("a default replaced what was given: key %q, deadline %v, %v", r.Key, r.Deadline, err)
	}
	h := valid()
	h[schemas.HeaderKey] = []string{""}
	if _, err := schemas.ParseRequest(schemas.Jobs, "t", "x", h, nil, d); err == nil {
		t.Error("an empty key was filled; it was given, and is malformed")
	}
}

// Trimmed headers fit, and lose the largest first.
func TestTrim(t *testing.T) {
	h := schemas.Header{"Small": {"x"}, "Large": {strings.Repeat("y", 2000)}, "Larger": {strings.Repeat("z", 3000)}}
	if h.Trim(10_000) {
		t.Error("trimmed what fits")
	}
	if !h.Trim(2500) || h.Size() > 2500 || h.Get("Small") == "" || h.Get("Large") == "" {
		t.Errorf("after the first trim: %d bytes, %d headers", h.Size(), len(h))
	}
	if !h.Trim(100) || h.Get("Small") != "x" || len(h) != 1 {
		t.Errorf("after the second trim: %v", h)
	}
}
