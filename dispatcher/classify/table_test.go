package classify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// short is a verdict in one line: class phase addressee stop throttled.
func short(v classify.Verdict) string {
	s := v.Class.String() + " " + v.Phase.String()
	if v.OK() {
		s = "ok " + v.Phase.String()
	}
	s += [...]string{"", " model", " repair"}[v.For]
	if v.StopReason != "" {
		s += " " + string(v.StopReason)
	}
	if v.Throttled {
		s += " throttled"
	}
	return s
}

// The whole of DESIGN section 7 for HTTP and, since it is the same table, NATS.
func TestHTTPStatusTable(t *testing.T) {
	want := map[int]string{}
	for _, s := range []int{400, 404, 405, 406, 409, 410, 411, 413, 414, 415, 422, 451} {
		want[s] = "permanent answered model"
	}
	for _, s := range []int{408, 500, 502, 503, 504} {
		want[s] = "transient no_answer"
	}
	want[425] = "transient answered"
	want[429] = "transient answered throttled"
	want[401] = "permanent answered AUTH_EXPIRED"
	want[403] = "permanent answered DOWNSTREAM_REJECTED"
	for s := 100; s < 600; s++ {
		expected, listed := want[s]
		switch {
		case listed:
		case s < 200, s >= 400 && s < 500:
			expected = "unclassified answered"
		case s < 300:
			expected = "ok answered"
		case s < 400:
			expected = "permanent answered"
		default:
			expected = "unclassified no_answer"
		}
		if got := short(classify.HTTP(s, "", nil, classify.Rules{}, now)); got != expected {
			t.Errorf("HTTP %d: got %q, want %q", s, got, expected)
		}
		if s >= 400 {
			if got := short(classify.NATS(fmt.Sprint(s), "", nil, classify.Rules{}, now)); got != expected {
				t.Errorf("NATS %d: got %q, want %q", s, got, expected)
			}
		}
	}
	if v := classify.HTTP(302, "", []byte("login"), classify.Rules{}, now); v.Code != classify.CodeRedirect {
		t.Errorf("302 has code %q, want REDIRECT", v.Code)
	}
	if got := short(classify.NATS("", "", []byte("hi"), classify.Rules{}, now)); got != "ok answered" {
		t.Errorf("NATS reply without an error code: %q", got)
	}
	if got := short(classify.NATS("many", "", nil, classify.Rules{}, now)); got != "unclassified answered" {
		t.Errorf("NATS code that is no number: %q", got)
	}
}

func TestExitTable(t *testing.T) {
	want := map[int]string{
		0: "ok answered", 75: "transient answered", 69: "transient answered",
		64: "permanent answered model", 65: "permanent answered model",
		77: "permanent answered", 78: "permanent answered",
	}
	for exit := range 256 {
		expected, listed := want[exit]
		if !listed {
			expected = "unclassified answered"
		}
		if got := short(classify.Exec(exit, nil, classify.Rules{})); got != expected {
			t.Errorf("exit %d: got %q, want %q", exit, got, expected)
		}
	}
}

func toolError(retryable bool, after, stop string) string {
	return fmt.Sprintf(`{"code":"POOL_FULL","retryable":%v,"retry_after_ms":%s,"stop_reason":%s,"detail":"x"}`, retryable, after, stop)
}

// A valid tool error outranks the status; one that tries and fails is a stop (I8).
func TestToolErrorOutranksStatus(t *testing.T) {
	declared := classify.Rules{NotExecutedOn: []int{503}}
	closed := classify.Rules{Codes: []string{"OTHER"}}
	tests := []struct {
		name   string
		status int
		body   string
		rules  classify.Rules
		want   string
		wait   time.Duration
	}{
		{"permanent over 503", 503, toolError(false, "null", "null"), classify.Rules{}, "permanent answered model", 0},
		{"transient over 400", 400, toolError(true, "1200", "null"), classify.Rules{}, "transient answered", 1200 * time.Millisecond},
		{"transient in a 200", 200, toolError(true, "null", "null"), classify.Rules{}, "transient answered", 0},
		{"stop reason beats retryable", 503, toolError(true, "5", `"QUOTA_EXHAUSTED"`), classify.Rules{}, "permanent answered QUOTA_EXHAUSTED", 0},
		{"429 stays throttled", 429, toolError(true, "0", "null"), classify.Rules{}, "transient answered throttled", 0},
		{"declared not executed", 503, toolError(true, "null", "null"), declared, "transient not_sent", 0},
		{"declared, but a 200", 200, toolError(true, "null", "null"), classify.Rules{NotExecutedOn: []int{200}}, "transient answered", 0},
		{"undeclared code", 400, toolError(true, "null", "null"), closed, "unclassified answered", 0},
		{"field missing", 400, `{"code":"X","retryable":true}`, classify.Rules{}, "unclassified answered", 0},
		{"field missing on 503: nobody knows", 503, `{"code":"X","retryable":true}`, classify.Rules{}, "unclassified no_answer", 0},
		{"unknown stop reason", 400, toolError(false, "null", `"BORED"`), classify.Rules{}, "unclassified answered", 0},
		{"some other body", 503, `{"error":"x"}`, classify.Rules{}, "transient no_answer", 0},
		{"declared, some other body", 503, `busy`, declared, "transient not_sent", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := classify.HTTP(tt.status, "", []byte(tt.body), tt.rules, now)
			if short(v) != tt.want || v.RetryAfter != tt.wait {
				t.Errorf("got %q wait %v, want %q wait %v", short(v), v.RetryAfter, tt.want, tt.wait)
			}
		})
	}
}

func TestToolErrorOutranksExitCode(t *testing.T) {
	if got := short(classify.Exec(1, []byte(toolError(true, "null", "null")), classify.Rules{})); got != "transient answered" {
		t.Errorf("exit 1 with a transient tool error: %q", got)
	}
	if got := short(classify.Exec(75, []byte(toolError(false, "null", "null")), classify.Rules{})); got != "permanent answered model" {
		t.Errorf("exit 75 with a permanent tool error: %q", got)
	}
}

func TestStatedWait(t *testing.T) {
	null := toolError(true, "null", "null")
	if v := classify.HTTP(429, "7", []byte(null), classify.Rules{}, now); v.RetryAfter != 7*time.Second {
		t.Errorf("the header counts where the body states no wait: got %v", v.RetryAfter)
	}
	if v := classify.HTTP(429, "7", []byte(toolError(true, "1200", "null")), classify.Rules{}, now); v.RetryAfter != 1200*time.Millisecond {
		t.Errorf("the body's wait outranks the header: got %v", v.RetryAfter)
	}
	if v := classify.HTTP(503, "2", nil, classify.Rules{}, now); v.RetryAfter != 2*time.Second {
		t.Errorf("503 with Retry-After: got %v", v.RetryAfter)
	}
}

func TestOverrides(t *testing.T) {
	rules := classify.Rules{Overrides: map[string]classify.Class{
		"529": classify.Transient, "409": classify.Transient, "503": classify.Permanent, "404": classify.Unclassified, "1": classify.Transient,
	}}
	for status, want := range map[int]string{
		529: "transient no_answer", 409: "transient answered", 503: "permanent answered model", 404: "unclassified answered", 500: "transient no_answer",
	} {
		if got := short(classify.HTTP(status, "", nil, rules, now)); got != want {
			t.Errorf("HTTP %d: got %q, want %q", status, got, want)
		}
	}
	if got := short(classify.Exec(1, nil, rules)); got != "transient answered" {
		t.Errorf("exit 1 declared transient: %q", got)
	}
	for _, bad := range []classify.Rules{{Overrides: map[string]classify.Class{"5xx": classify.Transient}}, {ErrorAt: "error"}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if rules.Validate() != nil {
		t.Error("good rules were refused")
	}
	for _, name := range []string{"transient", "permanent", "unclassified"} {
		if c, err := classify.ParseClass(name); err != nil || c.String() != name {
			t.Errorf("ParseClass(%q) = %v, %v", name, c, err)
		}
	}
	if _, err := classify.ParseClass(""); err == nil {
		t.Error("the empty class was accepted")
	}
}

func TestErrorInsideASuccess(t *testing.T) {
	rules := classify.Rules{ErrorAt: "/result/errors/0"}
	tests := map[string]string{
		`{"result":{"errors":["no such row"]}}`: "permanent answered model",
		`{"result":{"errors":[false]}}`:         "permanent answered model",
		`{"result":{"errors":[null]}}`:          "ok answered",
		`{"result":{"errors":[]}}`:              "ok answered",
		`{"result":1}`:                          "ok answered",
		`plain text`:                            "ok answered",
		`{"result":{"errors":[` + toolError(true, "9", "null") + `]}}`:             "transient answered",
		`{"result":{"errors":[` + toolError(true, "9", `"AUTH_EXPIRED"`) + `]}}`:   "permanent answered AUTH_EXPIRED",
		`{"result":{"errors":[{"code":"X","retryable":true,"stop_reason":null}]}}`: "unclassified answered",
	}
	for body, want := range tests {
		if got := short(classify.HTTP(200, "", []byte(body), rules, now)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	if v, ok := classify.Pointer([]byte(`{"a/b":{"m~n":[7]}}`), "/a~1b/m~0n/0"); !ok || string(v) != "7" {
		t.Errorf("escaped pointer: %s %v", v, ok)
	}
}

func TestResultContent(t *testing.T) {
	v := classify.Result([]byte(`{"b": 1e400}`))
	if string(v.Structured) != `{"b": 1e400}` || len(v.Content) != 1 || v.Content[0].Text != `{"b": 1e400}` {
		t.Errorf("JSON is kept as it is: %+v", v)
	}
	v = classify.Result([]byte("hello"))
	if v.Structured != nil || !cmp.Equal(v.Content, []schemas.Content{{Type: "text", Text: "hello"}}) {
		t.Errorf("text: %+v", v)
	}
	v = classify.Result([]byte("a\xffb"))
	if len(v.Content) != 2 || v.Content[0].Text != "a\uFFFDb" || !strings.Contains(v.Content[1].Text, "not valid UTF-8") {
		t.Errorf("invalid UTF-8 is replaced and marked: %+v", v)
	}
	if v = classify.Result(nil); !v.OK() || v.Content != nil || v.Structured != nil {
		t.Errorf("empty: %+v", v)
	}
}

// What a model reads of an error is bounded, and cut between characters.
func TestExplanationIsBounded(t *testing.T) {
	v := classify.HTTP(400, "", []byte(strings.Repeat("é", 20000)), classify.Rules{}, now)
	got := v.Content[0].Text
	if len(got) > 17<<10 || !strings.HasSuffix(got, "é [cut]") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%d bytes ending in %q", len(got), got[len(got)-12:])
	}
	if v := classify.HTTP(500, "", []byte("stack trace"), classify.Rules{}, now); v.Content != nil {
		t.Error("a failure that is not for the model was given to it")
	}
}
