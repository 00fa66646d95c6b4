package classify_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// Whatever a tool answers becomes a verdict that can be stored: a phase, a code on
// every failure, valid UTF-8, valid JSON. And no failure is retried unless a status
// or the body's own word says that it may be (I8).
func FuzzAnswer(f *testing.F) {
	f.Add(200, []byte(`{"error":null}`))
	f.Add(503, []byte(`{"code":"X","retryable":true,"retry_after_ms":null,"stop_reason":null}`))
	f.Add(400, []byte("\xff\xfe"))
	f.Add(200, []byte(`{"error":{"code":"X","retryable":false,"retry_after_ms":1e300,"stop_reason":"AUTH_EXPIRED"}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		for _, v := range []classify.Verdict{
			classify.HTTP(status, "", body, classify.Rules{ErrorAt: "/error"}, now),
			classify.Exec(status, body, classify.Rules{}),
		} {
			storable(t, v)
			said, kind := schemas.ParseToolError(body, nil)
			if kind == schemas.ValidToolError && (said.StopReason != "" || !said.Retryable) && v.Class == classify.Transient {
				t.Errorf("status %d, body %q: transient although the tool said no", status, body)
			}
			if kind == schemas.BrokenToolError && v.Class != classify.Unclassified && !(status >= 300 && status < 400) {
				t.Errorf("status %d: a broken tool error %q became %v", status, body, v.Class)
			}
		}
	})
}

func storable(t *testing.T, v classify.Verdict) {
	t.Helper()
	if v.Phase == 0 || !v.OK() && (v.Code == "" || v.Message == "") || v.RetryAfter < 0 {
		t.Errorf("incomplete verdict %+v", v)
	}
	if v.Structured != nil && !json.Valid(v.Structured) {
		t.Errorf("structured is not JSON: %q", v.Structured)
	}
	if !utf8.ValidString(v.Message) || !utf8.ValidString(v.Code) {
		t.Errorf("code %q or message %q is not UTF-8", v.Code, v.Message)
	}
	for _, c := range v.Content {
		if !utf8.ValidString(c.Text) {
			t.Errorf("content is not UTF-8: %q", c.Text)
		}
	}
}
