package schemas_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"tollgate/schemas"
)

// compile returns the schema with that name; references outside our own are refused.
func compile(t testing.TB, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.AssertFormat()
	for _, n := range schemas.Names() {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Document(n)))
		if err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		if err := c.AddResource("urn:tollgate:v1:"+n, doc); err != nil {
			t.Fatalf("%s: %v", n, err)
		}
	}
	s, err := c.Compile("urn:tollgate:v1:" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func check(s *jsonschema.Schema, document []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestDocuments(t *testing.T) {
	for _, name := range schemas.Names() {
		if compile(t, name).Title == "" {
			t.Errorf("%s has no title", name)
		}
	}
	if schemas.Document("nothing") != nil {
		t.Error("a schema nobody wrote")
	}
}

func outcome(t *rapid.T) schemas.Outcome {
	o := schemas.Outcome{
		V: schemas.Version, ID: "o1", Tenant: "default", Lane: schemas.Calls, Run: "r", Tool: "x", Call: "c", Key: "k",
		Generation: rapid.IntRange(0, 3).Draw(t, "generation"),
		Status:     rapid.SampledFrom([]schemas.Status{schemas.Succeeded, schemas.ToolError, schemas.Exhausted, schemas.Unavailable, schemas.Rejected, schemas.Cancelled}).Draw(t, "status"),
		NextAction: schemas.Return,
		Budget:     schemas.Budget{Attempts: schemas.Usage{Used: 1, Limit: -1}},
		Timing:     schemas.Timing{Settled: deadline},
		Structured: json.RawMessage(`[1]`),
	}
	for n := range rapid.IntRange(0, 3).Draw(t, "attempts") {
		o.Attempts = append(o.Attempts, schemas.Attempt{N: n + 1, Started: deadline, Class: rapid.SampledFrom([]string{"", "transient", "permanent", "unclassified"}).Draw(t, "class"), Phase: "answered"})
	}
	if o.Status != schemas.Succeeded {
		o.IsError = true
		o.Error = &schemas.Error{Code: schemas.CodeRunBudget, Message: "no", Reason: "attempts", Scope: "r", LastFailure: &schemas.Error{Code: "X"}}
	}
	return o
}

// What the Go types write is what the published schemas say, and is read back.
func TestOutcomesAndLettersFollowTheirSchema(t *testing.T) {
	outcomes, letters := compile(t, "outcome"), compile(t, "dead-letter")
	rapid.Check(t, func(t *rapid.T) {
		o := outcome(t)
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(outcomes, b); err != nil {
			t.Fatalf("%s\n%v", b, err)
		}
		var back schemas.Outcome
		if err := json.Unmarshal(b, &back); err != nil || back.Status != o.Status || len(back.Attempts) != len(o.Attempts) {
			t.Fatalf("read back as %+v, %v", back, err)
		}
		l := schemas.Letter{
			V: schemas.Version, ID: "c.0", State: rapid.SampledFrom([]schemas.LetterState{schemas.LetterActive, schemas.LetterReplaying, schemas.LetterResolved, schemas.LetterDiscarded, schemas.LetterPurged}).Draw(t, "state"),
			Reason: rapid.SampledFrom(schemas.Reasons).Draw(t, "reason"), Code: "X", Lane: schemas.Jobs, Outcome: &o, FirstSeen: deadline, DiedAt: deadline,
			Header: schemas.Header{"X": {"y"}}, Arguments: "{}",
		}
		if b, err = json.Marshal(l); err != nil {
			t.Fatal(err)
		}
		if err := check(letters, b); err != nil {
			t.Fatalf("%s\n%v", b, err)
		}
	})
}

// A schema that accepted everything would pass every other test.
func TestSchemasRefuse(t *testing.T) {
	outcomes := compile(t, "outcome")
	good, err := json.Marshal(schemas.Outcome{V: 1, Lane: schemas.Calls, Status: schemas.Succeeded, NextAction: schemas.Return})
	if err != nil {
		t.Fatal(err)
	}
	if err := check(outcomes, good); err != nil {
		t.Fatal(err)
	}
	for old, bad := range map[string]string{
		`"v":1`:                  `"v":2`,
		`"succeeded"`:            `"done"`,
		`"is_error":false`:       `"is_error":true`,
		`"next_action":"return"`: `"next_action":"retry"`,
		`"attempts":[]`:          `"attempts":null`,
		`"generation":0`:         `"generation":-1`,
		`"lane":"calls",`:        ``,
	} {
		text := strings.Replace(string(good), old, bad, 1)
		if text == string(good) {
			t.Fatalf("%s is not in %s", old, good)
		}
		if check(outcomes, []byte(text)) == nil {
			t.Errorf("%s in place of %s was accepted", bad, old)
		}
	}
}

// The headers a parser accepts are those request.json accepts.
func TestRequestSchemaAgreesWithParser(t *testing.T) {
	s := compile(t, "request")
	rapid.Check(t, func(t *rapid.T) {
		flat := map[string]any{}
		h := schemas.Header{}
		for name, values := range map[string][]string{
			schemas.HeaderRun:         {"r", "r/c", "r//c", "r.c", "", "a/b/c/d/e/f/g/h/i"},
			schemas.HeaderKey:         {"k", "k k", "", strings.Repeat("k", 256)},
			schemas.HeaderDeadline:    {"2026-11-30T12:00:00Z", "2026-11-30T12:00:00.1+02:00", "tomorrow", "2026-11-30T12:00:00"},
			schemas.HeaderVersion:     {"1", "2"},
			schemas.HeaderRunAttempts: {"0", "17", "-1", "x", "1.5", ""},
			schemas.HeaderRunDeadline: {"2026-11-30T12:00:00Z", "soon"},
			schemas.HeaderToolCallID:  {"id", strings.Repeat("i", 257)},
		} {
			if v := rapid.SampledFrom(append(values, "absent")).Draw(t, name); v != "absent" {
				flat[name], h[name] = v, []string{v}
			}
		}
		_, err := parse(h)
		if invalid := s.Validate(flat); (err == nil) != (invalid == nil) {
			t.Fatalf("%v: the parser says %v, the schema %v", h, err, invalid)
		}
	})
}

func TestServiceCode(t *testing.T) {
	for _, tc := range []struct {
		status schemas.Status
		code   string
		reason string
		want   int
	}{
		{schemas.Succeeded, "", "", 0},
		{schemas.Rejected, schemas.CodeMalformed, "", 400},
		{schemas.Exhausted, schemas.CodeRunBudget, "attempts", 402},
		{schemas.Exhausted, schemas.CodeRunBudget, "side_effects", 402},
		{schemas.Exhausted, schemas.CodeCallAttempts, "", 402},
		{schemas.Rejected, schemas.CodeDenied, "", 403},
		{schemas.Rejected, schemas.CodeUnknownTool, "", 404},
		{schemas.Cancelled, schemas.CodeCancelled, "", 410},
		{schemas.Rejected, schemas.CodeTooLarge, "", 413},
		{schemas.Rejected, schemas.CodeKeyConflict, "", 422},
		{schemas.Repair, schemas.CodeInvalidArguments, "", 422},
		{schemas.Failed, "X", "", 500},
		{schemas.ToolError, "X", "", 500},
		{schemas.UnknownOutcome, "X", "", 502},
		{schemas.Unavailable, schemas.CodeBreakerOpen, "", 503},
		{schemas.Rejected, schemas.CodeLedgerDown, "", 503},
		{schemas.Rejected, schemas.CodeQueueFull, "", 503},
		{schemas.Exhausted, schemas.CodeRunBudget, "elapsed_time", 504},
		{schemas.Exhausted, schemas.CodeCallDeadline, "", 504},
		{schemas.Exhausted, schemas.CodeDoesNotFit, "", 504},
	} {
		o := schemas.Outcome{Status: tc.status}
		if tc.code != "" {
			o.Error = &schemas.Error{Code: tc.code, Reason: tc.reason}
		}
		if got := o.ServiceCode(); got != tc.want {
			t.Errorf("%s %s %s: %d, want %d", tc.status, tc.code, tc.reason, got, tc.want)
		}
	}
}

func TestMillis(t *testing.T) {
	for ms, want := range map[float64]time.Duration{1200: 1200 * time.Millisecond, 0.5: 500 * time.Microsecond, 0: 0, -5: 0, 1e300: 0} {
		if got := schemas.Millis(ms); got != want {
			t.Errorf("%v ms became %v, want %v", ms, got, want)
		}
	}
}
