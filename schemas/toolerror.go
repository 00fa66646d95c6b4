package schemas

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// StopReason says that no wait can help, and what an operator should do.
type StopReason string

// The stop reasons, a closed set.
const (
	AuthExpired        StopReason = "AUTH_EXPIRED"        // renew the credentials, then replay
	QuotaExhausted     StopReason = "QUOTA_EXHAUSTED"     // raise the quota or wait, then replay
	SchemaMismatch     StopReason = "SCHEMA_MISMATCH"     // fix the schema or the arguments, then edit and replay
	DownstreamRejected StopReason = "DOWNSTREAM_REJECTED" // do not replay unchanged
)

// StopReasons lists the closed set.
var StopReasons = []StopReason{AuthExpired, QuotaExhausted, SchemaMismatch, DownstreamRejected}

// ToolErrorBody is the four-field error a tool answers with.
type ToolErrorBody struct {
	Code       string
	Retryable  bool
	RetryAfter time.Duration // 0: none stated
	StopReason StopReason    // "": none
}

// ToolErrorKind says how far a body follows the tool error contract.
type ToolErrorKind uint8

// The kinds.
const (
	NotToolError    ToolErrorKind = iota + 1 // some other body: ignored
	ValidToolError                           // outranks the executor's own table
	BrokenToolError                          // tries and fails: unclassified
)

// ParseToolError reads body against the contract: code, retryable,
// retry_after_ms and stop_reason all present, the last two possibly null. A body
// that is a JSON object with the members code and retryable counts as trying.
// codes is the tool's closed set; an empty set accepts any code.
func ParseToolError(body []byte, codes []string) (ToolErrorBody, ToolErrorKind) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '{' {
		return ToolErrorBody{}, NotToolError
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil {
		return ToolErrorBody{}, NotToolError
	}
	_, hasCode := m["code"]
	_, hasRetryable := m["retryable"]
	if !hasCode || !hasRetryable {
		return ToolErrorBody{}, NotToolError
	}
	t, ok := readToolError(m)
	if !ok || len(codes) > 0 && !slices.Contains(codes, t.Code) {
		return t, BrokenToolError
	}
	return t, ValidToolError
}

func readToolError(m map[string]json.RawMessage) (t ToolErrorBody, ok bool) {
	after, hasAfter := m["retry_after_ms"]
	stop, hasStop := m["stop_reason"]
	if !hasAfter || !hasStop || isNull(m["code"]) || isNull(m["retryable"]) {
		return t, false
	}
	if json.Unmarshal(m["code"], &t.Code) != nil || t.Code == "" || json.Unmarshal(m["retryable"], &t.Retryable) != nil {
		return t, false
	}
	if !isNull(stop) {
		if json.Unmarshal(stop, &t.StopReason) != nil || !slices.Contains(StopReasons, t.StopReason) {
			return t, false
		}
	}
	if !isNull(after) {
		var ms float64
		if json.Unmarshal(after, &ms) != nil {
			return t, true // an unreadable wait is no wait, not a broken body
		}
		t.RetryAfter = Millis(ms)
	}
	return t, true
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

// maxWait bounds a stated wait; what is longer is no sensible wait at all.
const maxWait = 10 * 365 * 24 * time.Hour

// Millis turns a stated number of milliseconds into a wait. Zero, negative, not a
// number and more than ten years all mean that no usable wait was stated.
func Millis(ms float64) time.Duration {
	if !(ms > 0) || ms > float64(maxWait/time.Millisecond) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}
