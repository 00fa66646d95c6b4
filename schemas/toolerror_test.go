package schemas_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"tollgate/schemas"
)

func TestParseToolError(t *testing.T) {
	codes := []string{"BUSY", "GONE"}
	for _, tc := range []struct {
		body string
		kind schemas.ToolErrorKind
		want schemas.ToolErrorBody
	}{
		{`{"code":"BUSY","retryable":true,"retry_after_ms":1200,"stop_reason":null}`, schemas.ValidToolError,
			schemas.ToolErrorBody{Code: "BUSY", Retryable: true, RetryAfter: 1200 * time.Millisecond}},
		{` {"code":"GONE","retryable":true,"retry_after_ms":null,"stop_reason":"AUTH_EXPIRED","more":{}} `, schemas.ValidToolError,
			schemas.ToolErrorBody{Code: "GONE", Retryable: true, StopReason: schemas.AuthExpired}},
		{`{"code":"BUSY","retryable":true,"retry_after_ms":-1,"stop_reason":null}`, schemas.ValidToolError, schemas.ToolErrorBody{Code: "BUSY", Retryable: true}},
		{`{"code":"BUSY","retryable":true,"retry_after_ms":"soon","stop_reason":null}`, schemas.ValidToolError, schemas.ToolErrorBody{Code: "BUSY", Retryable: true}},
		{body: `{"code":"OTHER","retryable":true,"retry_after_ms":null,"stop_reason":null}`, kind: schemas.BrokenToolError},
		{body: `{"code":"BUSY","retryable":true,"stop_reason":null}`, kind: schemas.BrokenToolError},
		{body: `{"code":"BUSY","retryable":true,"retry_after_ms":null}`, kind: schemas.BrokenToolError},
		{body: `{"code":"BUSY","retryable":"yes","retry_after_ms":null,"stop_reason":null}`, kind: schemas.BrokenToolError},
		{body: `{"code":null,"retryable":true,"retry_after_ms":null,"stop_reason":null}`, kind: schemas.BrokenToolError},
		{body: `{"code":"BUSY","retryable":null,"retry_after_ms":null,"stop_reason":null}`, kind: schemas.BrokenToolError},
		{body: `{"code":"BUSY","retryable":true,"retry_after_ms":null,"stop_reason":"TIRED"}`, kind: schemas.BrokenToolError},
		{body: `{"code":"BUSY"}`, kind: schemas.NotToolError},
		{body: `{"CODE":"BUSY","Retryable":true}`, kind: schemas.NotToolError},
		{body: `[1]`, kind: schemas.NotToolError},
		{body: `<html>`, kind: schemas.NotToolError},
		{body: `{"code":"BUSY","retryable":true`, kind: schemas.NotToolError},
		{body: ``, kind: schemas.NotToolError},
	} {
		got, kind := schemas.ParseToolError([]byte(tc.body), codes)
		if kind != tc.kind || kind == schemas.ValidToolError && got != tc.want {
			t.Errorf("%s: %+v, kind %d; want %+v, kind %d", tc.body, got, kind, tc.want, tc.kind)
		}
	}
	if _, kind := schemas.ParseToolError([]byte(`{"code":"ANY","retryable":false,"retry_after_ms":null,"stop_reason":null}`), nil); kind != schemas.ValidToolError {
		t.Error("a tool without a closed set of codes: its code was not accepted")
	}
}

// The parser and the published schema accept the same bodies, but for a wait that
// does not read: that one costs the tool its wait, not its word.
func FuzzParseToolError(f *testing.F) {
	f.Add([]byte(`{"code":"BUSY","retryable":true,"retry_after_ms":1200,"stop_reason":null}`))
	f.Add([]byte(`{"code":"BUSY","retryable":true,"retry_after_ms":{},"stop_reason":"AUTH_EXPIRED"}`))
	f.Add([]byte(`{"code":"","retryable":true,"retry_after_ms":1e999,"stop_reason":null}`))
	f.Add([]byte(`{"code":"X","code":null,"retryable":0,"retry_after_ms":null,"stop_reason":"NO"}`))
	s := compile(f, "tool-error")
	f.Fuzz(func(t *testing.T, body []byte) {
		got, kind := schemas.ParseToolError(body, nil)
		invalid := check(s, body)
		if got.RetryAfter < 0 {
			t.Errorf("wait %v", got.RetryAfter)
		}
		if invalid == nil && kind != schemas.ValidToolError {
			t.Errorf("%s follows the schema, but is kind %d", body, kind)
		}
		if invalid != nil && kind == schemas.ValidToolError && check(s, withoutWait(t, body)) != nil {
			t.Errorf("%s was accepted: %v", body, invalid)
		}
	})
}

func withoutWait(t *testing.T, body []byte) []byte {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(bytes.TrimSpace(body), &m); err != nil {
		t.Fatalf("%s was accepted and is not JSON: %v", body, err)
	}
	m["retry_after_ms"] = json.RawMessage("null")
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
