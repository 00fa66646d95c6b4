package schemas

import (
	"encoding/json"
	"time"
)

// Status is how a call ended.
type Status string

// The statuses, a closed set.
const (
	Succeeded      Status = "succeeded"
	ToolError      Status = "tool_error"
	Repair         Status = "repair"
	Failed         Status = "failed"
	UnknownOutcome Status = "unknown_outcome"
	Exhausted      Status = "exhausted"
	Unavailable    Status = "unavailable"
	Rejected       Status = "rejected"
	Cancelled      Status = "cancelled"
)

// Action tells the orchestrator what to do with an outcome.
type Action string

// The next actions, a closed set.
const (
	Return     Action = "return"
	RepairArgs Action = "repair"
	Escalate   Action = "escalate"
	Reconcile  Action = "reconcile"
)

// Codes the dispatcher itself gives. A tool's own codes stand beside them.
const (
	CodeRunBudget        = "RUN_BUDGET_EXHAUSTED"
	CodeCallAttempts     = "CALL_ATTEMPTS_EXHAUSTED"
	CodeCallDeadline     = "CALL_DEADLINE_EXCEEDED"
	CodeDoesNotFit       = "DOES_NOT_FIT"
	CodeMalformed        = "MALFORMED"
	CodeKeyConflict      = "KEY_CONFLICT"
	CodeUnknownTool      = "UNKNOWN_TOOL"
	CodeDenied           = "DENIED"
	CodeTooLarge         = "TOO_LARGE"
	CodeUnsafeToRepeat   = "UNSAFE_TO_REPEAT"
	CodePoison           = "POISON"
	CodeStalled          = "STALLED"
	CodeInterrupted      = "INTERRUPTED"
	CodeCrashed          = "DISPATCHER_CRASHED"
	CodeCancelled        = "CANCELLED"
	CodeInvalidArguments = "INVALID_ARGUMENTS"
	CodeInvalidResult    = "INVALID_RESULT"
	CodeResultTooLarge   = "RESULT_TOO_LARGE"
	CodeBreakerOpen      = "BREAKER_OPEN"
	CodeRateLimited      = "RATE_LIMITED"
	CodeQuotaEmpty       = "RETRY_QUOTA_EMPTY"
	CodeWaitTooLong      = "WAIT_TOO_LONG"
	CodeQueueFull        = "QUEUE_FULL"
	CodeLedgerDown       = "LEDGER_UNAVAILABLE"
	CodeMaxRepairs       = "MAX_REPAIRS_EXCEEDED"
	CodeTooManyAccounts  = "TOO_MANY_ACCOUNTS"
	CodePanic            = "PANIC"
	CodeTimeout          = "TIMEOUT"
	CodeUnclassified     = "UNCLASSIFIED"
	CodeLedgerRecovered  = "LEDGER_RECOVERED"
	CodePaused           = "TOOL_PAUSED"
	CodeResolved         = "RESOLVED_BY_OPERATOR"
	CodeBodyLost         = "BODY_LOST"
	CodeUndetermined     = "UNDETERMINED"
	CodeStillRunning     = "STILL_RUNNING"
)

// Reasons of a dead letter, a closed set.
const (
	ReasonMalformed            = "malformed"
	ReasonPoison               = "poison"
	ReasonFailed               = "failed"
	ReasonUnknownOutcome       = "unknown_outcome"
	ReasonExhaustedAttempts    = "exhausted_attempts"
	ReasonExhaustedElapsedTime = "exhausted_elapsed_time"
	ReasonExhaustedSideEffects = "exhausted_side_effects"
	ReasonToolError            = "tool_error"
	ReasonRepair               = "repair"
	ReasonUnavailable          = "unavailable"
	ReasonRejected             = "rejected"
	ReasonCancelled            = "cancelled"
)

// Reasons lists the closed set of dead-letter reasons.
var Reasons = []string{
	ReasonMalformed, ReasonPoison, ReasonFailed, ReasonUnknownOutcome,
	ReasonExhaustedAttempts, ReasonExhaustedElapsedTime, ReasonExhaustedSideEffects,
	ReasonToolError, ReasonRepair, ReasonUnavailable, ReasonRejected, ReasonCancelled,
}

// Attempt is one attempt as it happened. Durations are milliseconds.
type Attempt struct {
	N            int       `json:"n"`
	Generation   int       `json:"generation"`
	Started      time.Time `json:"started"`
	Ended        time.Time `json:"ended,omitzero"`
	Class        string    `json:"class,omitempty"`
	Phase        string    `json:"phase,omitempty"`
	Code         string    `json:"code,omitempty"`
	Message      string    `json:"message,omitempty"`
	StopReason   string    `json:"stop_reason,omitempty"`
	RetryAfterMS int64     `json:"retry_after_ms,omitempty"` // the wait the tool stated
	DelayMS      int64     `json:"delay_ms,omitempty"`       // the wait chosen before the next attempt
	WaitedMS     int64     `json:"waited_ms,omitempty"`      // the wait really taken before this attempt
	Reached      bool      `json:"reached"`
	Reconcile    bool      `json:"reconcile,omitempty"`
	Decision     string    `json:"decision,omitempty"` // what the gate decided after it, and why
	Trace        string    `json:"trace,omitempty"`
}

// Error says why a call did not succeed.
type Error struct {
	Code         string `json:"code"`
	Class        string `json:"class,omitempty"`
	Phase        string `json:"phase,omitempty"`
	Message      string `json:"message"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMS *int64 `json:"retry_after_ms"`
	StopReason   string `json:"stop_reason,omitempty"`
	Reason       string `json:"reason,omitempty"` // attempts, elapsed_time, side_effects
	Scope        string `json:"scope,omitempty"`  // the run path whose account refused
	LastFailure  *Error `json:"last_failure,omitempty"`
}

// Usage is how much of one limit is used. Limit is -1 where none applies.
type Usage struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// Budget is the state of the account nearest to its limit on the call's run path.
// ElapsedMS counts from the run's start to its deadline.
type Budget struct {
	Attempts    Usage `json:"attempts"`
	SideEffects Usage `json:"side_effects"`
	ElapsedMS   Usage `json:"elapsed_ms"`
}

// Timing holds the instants of a call.
type Timing struct {
	Published time.Time `json:"published"`
	Deadline  time.Time `json:"deadline"`
	Settled   time.Time `json:"settled"`
}

// Content is one block of a result, in the shape models take.
type Content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Outcome is the one terminal answer to a call and generation.
type Outcome struct {
	V            int             `json:"v"`
	ID           string          `json:"id"`
	Tenant       string          `json:"tenant"`
	Lane         Lane            `json:"lane"`
	Run          string          `json:"run"`
	Tool         string          `json:"tool"`
	Call         string          `json:"call"`
	Generation   int             `json:"generation"`
	Key          string          `json:"key"`
	Fingerprint  string          `json:"fingerprint"`
	ToolCallID   string          `json:"tool_call_id,omitempty"`
	Status       Status          `json:"status"`
	IsError      bool            `json:"is_error"`
	Content      []Content       `json:"content,omitempty"`
	Structured   json.RawMessage `json:"structured,omitempty"`
	Error        *Error          `json:"error,omitempty"`
	NextAction   Action          `json:"next_action"`
	Attempts     []Attempt       `json:"attempts"`
	Budget       Budget          `json:"budget"`
	Repeated     bool            `json:"repeated"`
	ToolRepeated bool            `json:"tool_repeated,omitempty"`
	Timing       Timing          `json:"timing"`
}

// Code returns the outcome's error code, or "".
func (o *Outcome) Code() string {
	if o.Error == nil {
		return ""
	}
	return o.Error.Code
}

// ServiceCode is the numeric code a failed reply carries; 0 for success.
func (o *Outcome) ServiceCode() int {
	switch o.Status {
	case Succeeded:
		return 0
	case Repair:
		return 422
	case UnknownOutcome:
		return 502
	case Unavailable:
		return 503
	case Cancelled:
		return 410
	case Exhausted:
		if o.Code() == CodeRunBudget && o.Error.Reason != "elapsed_time" || o.Code() == CodeCallAttempts {
			return 402
		}
		return 504
	case Rejected:
		return refusalCode(o.Code())
	default:
		return 500
	}
}

func refusalCode(code string) int {
	switch code {
	case CodeDenied:
		return 403
	case CodeUnknownTool:
		return 404
	case CodeTooLarge:
		return 413
	case CodeKeyConflict:
		return 422
	case CodeLedgerDown, CodeQueueFull:
		return 503
	default:
		return 400
	}
}
