package tollgatetest

import (
	"cmp"
	"encoding/json"
	"time"

	"tollgate/dedupe"
	"tollgate/tools/function"
)

// Tool is a tool that is a function. The zero values are the careful ones: a write that
// must never be repeated.
type Tool struct {
	Name         string
	Func         function.Func
	Read         bool          // changes nothing
	Safety       dedupe.Safety // of a write: why it may be repeated; "" means never
	KeyRetention time.Duration // with dedupe.IdempotencyKey; 0: 24h
	Schema       string        // JSON Schema of the arguments; "": any object
	Attempts     int           // of one call; 0: 3
	Timeout      time.Duration // of one attempt; 0: 1s
	MaxDeadline  time.Duration // of one call; 0: 30s
}

// policy is the tool's own.
func (t Tool) policy() map[string]any {
	return map[string]any{
		"attempts": cmp.Or(t.Attempts, 3), "timeout": cmp.Or(t.Timeout, time.Second).String(),
		"backoff":         map[string]any{"base": "10ms", "cap": "50ms", "throttle_base": "50ms"},
		"max_retry_after": "5s", "max_deadline": cmp.Or(t.MaxDeadline, 30*time.Second).String(),
		"run": map[string]any{"attempts": 10_000, "side_effects": 10_000, "elapsed": "24h", "max_repairs": 3, "max_accounts": 100},
	}
}

// entry is the tool in the catalogue.
func (t Tool) entry(policy string) map[string]any {
	e := map[string]any{"function": t.Name, "effect": string(dedupe.Write), "concurrency": 16, "policies": []string{policy}}
	if t.Read {
		e["effect"] = string(dedupe.Read)
	}
	if t.Safety != "" {
		e["retry_safety"] = string(t.Safety)
	}
	if t.Safety == dedupe.IdempotencyKey {
		e["key_retention"] = cmp.Or(t.KeyRetention, 24*time.Hour).String()
	}
	if t.Schema != "" {
		e["schema"] = json.RawMessage(t.Schema)
	}
	return e
}
