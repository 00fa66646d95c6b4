// Package classify turns what an executor saw into a verdict: did the request
// leave, was it answered, and may the cause clear by itself. The tables are those
// of DESIGN section 7, by status, exit code and type, never by text. What is not
// listed is unclassified, and unclassified is a stop.
//
// Nothing here decides whether to retry: that is the gate's. Nothing here does I/O.
package classify

import (
	"encoding/json"
	"time"

	"tollgate/schemas"
)

// Phase says how far an attempt got.
type Phase uint8

// The phases.
const (
	NotSent  Phase = iota + 1 // provably never left
	Answered                  // the tool answered, whatever it said
	NoAnswer                  // it may have acted; nobody knows
)

func (p Phase) String() string { return [...]string{"", "not_sent", "answered", "no_answer"}[p] }

// Class says whether the cause of a failure may clear.
type Class uint8

// The classes. A success has none.
const (
	Transient    Class = iota + 1
	Permanent          // the same request will fail the same way
	Unclassified       // not on any list: a stop until the contract is updated
)

func (c Class) String() string {
	return [...]string{"", "transient", "permanent", "unclassified"}[c]
}

// For says whom a permanent failure is for.
type For uint8

// The addressees.
const (
	ForOperator For = iota // somebody has to mend something: failed
	ForModel               // the model can read it and choose otherwise: tool_error
	ForRepair              // the model should send other arguments: repair
)

// Verdict is one attempt's result. A zero Class is success.
type Verdict struct {
	Class        Class
	Phase        Phase
	For          For
	Code         string
	Message      string // for people; model-safe, no secrets
	StopReason   schemas.StopReason
	RetryAfter   time.Duration // the stated wait; 0 is none
	Throttled    bool          // back off on the slower curve
	ToolRepeated bool          // the tool said this was a repeat of an earlier result
	Content      []schemas.Content
	Structured   json.RawMessage
}

// OK reports success.
func (v Verdict) OK() bool { return v.Class == 0 }

// Reached reports whether the request may have reached the tool.
func (v Verdict) Reached() bool { return v.Phase != NotSent }

// Success is an answer that counts as the result.
func Success(content []schemas.Content, structured json.RawMessage) Verdict {
	return Verdict{Phase: Answered, Content: content, Structured: structured}
}

// Unsent is a transient failure that provably happened before the request left.
func Unsent(code, message string) Verdict {
	return Verdict{Class: Transient, Phase: NotSent, Code: code, Message: message}
}

// Lost is a transient failure after which the tool may have acted.
func Lost(code, message string) Verdict {
	return Verdict{Class: Transient, Phase: NoAnswer, Code: code, Message: message}
}

// Refused is a permanent failure that the tool, or what stands before it, gave.
func Refused(phase Phase, code, message string) Verdict {
	return Verdict{Class: Permanent, Phase: phase, Code: code, Message: message}
}

// Unknown is a failure nobody has classified.
func Unknown(phase Phase, code, message string) Verdict {
	return Verdict{Class: Unclassified, Phase: phase, Code: code, Message: message}
}
