package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"tollgate/control"
	"tollgate/schemas"
)

func TestSafeText(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 日本":                            "plain ü 日本",
		"a\x1b[31mred\x1b[0mb":                  "aredb",
		"title\x1b]0;owned\x07end":              "titleend",
		"link\x1b]8;;http://x\x1b\\text":        "linktext",
		"half\x1b[":                             "half",
		"bell\x07 back\x08 cr\rlf\n tab\t":      "bell back crlf\n tab\t",
		"c1\u009b31mtext":                       "c131mtext",
		"direction\u202egnp.exe":                "directiongnp.exe",
		"broken\xff\xfebytes":                   "broken\uFFFD\uFFFDbytes",
		"reset\x1bcnow":                         "resetnow",
		"string\x1bPq never ended and the rest": "string",
	} {
		if got := safe(in); got != want {
			t.Errorf("safe(%q) = %q, want %q", in, got, want)
		}
	}
}

// What a tool wrote never moves the cursor of whoever reads it.
func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[31mred\x1b]0;x\x07\xc2\x9b\xff")
	f.Fuzz(func(t *testing.T, in string) {
		for _, r := range safe(in) {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Errorf("safe(%q) holds %U", in, r)
			}
		}
	})
}

func TestJSONSaysWhatItIsAndKeepsNumbers(t *testing.T) {
	var out bytes.Buffer
	s := &shell{stdout: &out}
	zone := time.FixedZone("", 2*3600)
	v := struct {
		N    json.RawMessage      `json:"n"`
		At   time.Time            `json:"at"`
		Deep map[string]time.Time `json:"deep"`
	}{json.RawMessage("9007199254740993"), time.Date(2026, 11, 30, 14, 0, 0, 0, zone), map[string]time.Time{"x": time.Date(2026, 11, 30, 1, 0, 0, 0, zone)}}
	if err := s.printJSON("Thing", v); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"apiVersion": "tollgate/v1"`, `"kind": "Thing"`, `"n": 9007199254740993`, `"at": "2026-11-30T12:00:00Z"`, `"x": "2026-11-29T23:00:00Z"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in %s", want, out.String())
		}
	}
	if v.At.Location() != zone {
		t.Error("the caller's own value was changed")
	}
	out.Reset()
	if err := s.printJSON("List", []int{}); err != nil || !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"items": []`) {
		t.Errorf("an empty list: %s (%v)", out.String(), err)
	}
	out.Reset()
	if err := s.printJSON("Nothing", struct{}{}); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("an empty object: %s (%v)", out.String(), err)
	}
}

func TestConfirmation(t *testing.T) {
	for _, tc := range []struct {
		n         int
		uncertain bool
		answer    string
		ok        bool
	}{
		{1, false, "y\n", true}, {1, false, "Yes\n", true}, {1, false, "\n", false}, {1, false, "n\n", false}, {1, false, "", false},
		{99, false, "y\n", true}, {100, false, "y\n", false}, {100, false, "100\n", true}, {100, false, "10\n", false},
		{1, true, "y\n", false}, {1, true, "1\n", true},
	} {
		s := &shell{stdin: strings.NewReader(tc.answer), stderr: &bytes.Buffer{}, inTTY: true}
		err := s.confirm(t.Context(), "Replay", tc.n, tc.uncertain, false)
		if (err == nil) != tc.ok {
			t.Errorf("%d letters, uncertain %v, answer %q: %v", tc.n, tc.uncertain, tc.answer, err)
		}
		if f := new(fault); err != nil && (!errors.As(err, &f) || f.code != exitUnconfirmed) {
			t.Errorf("a refusal is exit code 5, not %v", err)
		}
	}
	nobody := &shell{stdin: strings.NewReader("y\n"), stderr: &bytes.Buffer{}}
	if nobody.confirm(t.Context(), "Replay", 1, false, false) == nil {
		t.Error("a pipe cannot confirm")
	}
	if err := nobody.confirm(t.Context(), "Replay", 1000, true, true); err != nil {
		t.Errorf("--yes: %v", err)
	}
}

func TestWordsOnTheCommandLine(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := &shell{now: func() time.Time { return now }}
	for in, want := range map[string]time.Time{"2h": now.Add(-2 * time.Hour), "3d": now.AddDate(0, 0, -3), "1d12h": now.Add(-36 * time.Hour),
		"2026-11-30T13:00:00+02:00": now.Add(-time.Hour), "": {}} {
		if got, err := s.instant("--since", in); err != nil || !got.Equal(want) {
			t.Errorf("--since %q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"yesterday", "-2h", "12", "3days"} {
		if _, err := s.instant("--since", in); err == nil {
			t.Errorf("--since %q is accepted", in)
		}
	}
	for in, want := range map[string]float64{"5/s": 5, "0.5": 0.5, "300/m": 5} {
		if got, err := parseRate(in); err != nil || got != want {
			t.Errorf("--rate %q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0/s", "-1/s", "5/h", "fast", "5s", "NaN"} {
		if _, err := parseRate(in); err == nil {
			t.Errorf("--rate %q is accepted", in)
		}
	}
	g, err := parseGrant("attempts=2, side_effects=1,elapsed=10m")
	if err != nil || g.Attempts != 2 || g.SideEffects != 1 || g.Elapsed != 10*time.Minute {
		t.Errorf("--grant: %+v, %v", g, err)
	}
	for _, in := range []string{"attempts", "attempts=-1", "attempts=0", "elapsed=-1m", "money=3", "attempts=2,"} {
		if _, err := parseGrant(in); err == nil {
			t.Errorf("--grant %q is accepted", in)
		}
	}
}

func TestExitCodeOfAnOutcome(t *testing.T) {
	for _, tc := range []struct {
		status       schemas.Status
		code, reason string
		want         int
	}{
		{schemas.Succeeded, "", "", exitOK},
		{schemas.ToolError, "BAD_STAGE", "", exitToolError},
		{schemas.UnknownOutcome, schemas.CodeTimeout, "", exitToolError},
		{schemas.Exhausted, schemas.CodeRunBudget, "attempts", exitBudget},
		{schemas.Exhausted, schemas.CodeRunBudget, "side_effects", exitBudget},
		{schemas.Exhausted, schemas.CodeRunBudget, "elapsed_time", exitDeadline},
		{schemas.Exhausted, schemas.CodeCallAttempts, "", exitBudget},
		{schemas.Exhausted, schemas.CodeCallDeadline, "", exitDeadline},
		{schemas.Exhausted, schemas.CodeDoesNotFit, "", exitDeadline},
		{schemas.Unavailable, schemas.CodeStillRunning, "", exitUnreachable},
		{schemas.Rejected, schemas.CodeKeyConflict, "", exitToolError},
	} {
		o := &schemas.Outcome{Status: tc.status}
		if tc.code != "" {
			o.Error = &schemas.Error{Code: tc.code, Reason: tc.reason}
		}
		got := exitOK
		if f := new(fault); errors.As(outcomeExit(o), &f) {
			got = f.code
		}
		if got != tc.want {
			t.Errorf("%s %s %s: exit code %d, want %d", tc.status, tc.code, tc.reason, got, tc.want)
		}
	}
}

// tools check must never call a tool with arguments that might be right.
func TestViolationIsCertain(t *testing.T) {
	args := []byte(`{"a":1}`)
	for schema, want := range map[string]string{
		`{"required":["a"]}`:                                           `{}`,
		`{"additionalProperties":false}`:                               `{"a":1,"extra":true}`,
		`{"additionalProperties":false,"patternProperties":{"^e":{}}}`: ``,
		`{"properties":{"a":{"type":"integer"}}}`:                      ``,
		``: ``,
	} {
		if got := string(violation([]byte(schema), args, "extra")); got != want {
			t.Errorf("violation of %s: %s, want %s", schema, got, want)
		}
	}
	if got := string(withMember([]byte(" { } "), "x")); got != `{ "x":true}` {
		t.Errorf("a member in an empty object: %s", got)
	}
}

// While a replay waits, the outcome before it is not taken for its own.
func TestACallInReplayShowsTheOutcomeBeforeAsThat(t *testing.T) {
	var out bytes.Buffer
	settled := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := &shell{stdout: &out, stderr: &bytes.Buffer{}, utc: true, now: func() time.Time { return settled }}
	d := &control.CallDetail{CallSummary: control.CallSummary{Call: "c", State: "waiting", Status: schemas.Exhausted, Generation: 1, Settled: settled},
		Outcome: &schemas.Outcome{Status: schemas.Exhausted, NextAction: "return"}}
	s.printCall(d)
	first, _, _ := strings.Cut(out.String(), "\n")
	if strings.Contains(first, "exhausted") || strings.Contains(out.String(), "\n  settled") || !strings.Contains(out.String(), "OUTCOME BEFORE THE REPLAY") {
		t.Errorf("the replay seems to have settled:\n%s", out.String())
	}
	out.Reset()
	d.State, d.Outcome.Generation = "dead", 1
	s.printCall(d)
	if !strings.Contains(out.String(), "\n  settled    2026-11-30 12:00:00Z") || strings.Contains(out.String(), "BEFORE") {
		t.Errorf("the replay has settled, and it does not say so:\n%s", out.String())
	}
}
