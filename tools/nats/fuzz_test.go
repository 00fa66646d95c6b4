package nats

import (
	"testing"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"tollgate/schemas"
)

// Whatever a service replies is judged; a reply that says it is an error is never a
// success, and one above the limit neither.
func FuzzReply(f *testing.F) {
	f.Add(schemas.HeaderServiceErrorCode, "503", "1", []byte("busy"))
	f.Add(schemas.HeaderServiceErrorCode, "99999999999999999999", "", []byte("{}"))
	f.Add(schemas.HeaderServiceError, "", "-1", []byte(nil))
	f.Add("nats-service-error-code", "4 0 4", "1e9", []byte(`{"code":"X","retryable":true,"retry_after_ms":-5,"stop_reason":null}`))
	f.Add("Idempotent-Replayed", "true", "", []byte("\xff\xfe"))
	e := &Executor{Spec{MaxResult: 1 << 10}}
	f.Fuzz(func(t *testing.T, name, value, wait string, body []byte) {
		v := e.judge(&nats.Msg{Header: nats.Header{name: {value}, "Retry-After": {wait}}, Data: body})
		if v.Phase == 0 || !v.OK() && (v.Code == "" || v.Message == "") || v.RetryAfter < 0 || !utf8.ValidString(v.Message) {
			t.Errorf("incomplete verdict %+v", v)
		}
		failed := name == schemas.HeaderServiceErrorCode && value != "" || name == schemas.HeaderServiceError
		if v.OK() && (failed || len(body) > 1<<10) {
			t.Errorf("%s: %q with %d bytes is a success", name, value, len(body))
		}
	})
}
