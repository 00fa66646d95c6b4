package dispatcher

import (
	"context"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// Invocation is one attempt's call of a tool. Arguments are the agent's bytes,
// unchanged; Key is the downstream key, the same on every attempt and replay.
type Invocation struct {
	Tool        string
	Tenant      string
	Run         string
	Call        string
	Key         string
	Attempt     int // from 1, within the generation
	Generation  int
	Deadline    time.Time // when this attempt is given up
	TraceParent string
	TraceState  string
	Arguments   []byte
}

// Executor makes one attempt, once: it never repeats a request by itself. It
// returns when ctx ends, and tells by [context.Cause] why. It may be called
// concurrently. What it saw comes back as a verdict, never as an error or a panic
// that means something (a panic is caught and is a transient failure without an answer).
type Executor interface {
	Execute(ctx context.Context, in Invocation) classify.Verdict
}

// Validator checks a JSON document against a tool's schema. The error names
// every failing place and is fit for a model to read.
type Validator interface {
	Validate(document []byte) error
}

// Tool is one entry of the catalogue.
type Tool struct {
	Name         string
	Kind         string // function, http, exec, nats: for people
	Effect       dedupe.Effect
	Safety       dedupe.Safety // of a write; "" on a write means never
	KeyRetention time.Duration
	AgentKey     bool // send the agent's own key downstream instead of the call ID
	Dependency   string
	Concurrency  int                       // attempts at once, at least 1
	JobsShare    float64                   // of Concurrency that jobs may hold, in (0, 1]
	Policies     map[schemas.Lane][]string // allowed, the first is the default
	Reconcile    string                    // a read tool that says what became of a key
	Arguments    Validator                 // nil: any object
	Result       Validator                 // nil: any result
	Redact       []string                  // JSON pointers hidden at display
	Executor     Executor
}

// Policy is the limits of a class of tools. Every field is required: there are no
// built-in limits.
type Policy struct {
	Name          string        `json:"name"`
	Attempts      int           `json:"attempts"` // of one call and generation, the first included
	Timeout       time.Duration `json:"timeout"`
	BackoffBase   time.Duration `json:"backoff_base"`
	BackoffCap    time.Duration `json:"backoff_cap"`
	ThrottleBase  time.Duration `json:"throttle_base"`
	MaxRetryAfter time.Duration `json:"max_retry_after"`
	MaxDeadline   time.Duration `json:"max_deadline"` // a call's deadline is at most this after its publish
	MaxRepairs    int           `json:"max_repairs"`  // of one run
	Run           budget.Maxima `json:"run"`
}

// Dependency is what tools share that stand on the same thing.
type Dependency struct {
	Name    string             `json:"name"`
	Quota   budget.QuotaLimits `json:"quota"`
	Breaker BreakerLimits      `json:"breaker"`
	Rate    float64            `json:"rate,omitempty"`  // attempts a second; 0 is no limit of its own
	Burst   int                `json:"burst,omitempty"` // of Rate; 0 means 1
}

// BreakerLimits set a dependency's circuit breaker. The zero value is off.
type BreakerLimits struct {
	Consecutive int           `json:"consecutive,omitempty"` // failures in a row that open it
	Ratio       float64       `json:"ratio,omitempty"`       // failed share that opens it, of at least Least attempts
	Least       int           `json:"least,omitempty"`       // attempts before Ratio counts
	Cooldown    time.Duration `json:"cooldown,omitempty"`    // how long it stays open
}

// Catalogue knows the tools, their policies and dependencies, and who may call what.
type Catalogue interface {
	Tool(name string) (*Tool, bool)
	Policy(name string) (Policy, bool)
	Dependency(name string) (Dependency, bool)
	Allowed(tenant, tool string) bool
}

// Terms returns what a call of t under p is admitted with.
func Terms(t *Tool, p Policy, window time.Duration) dedupe.Terms {
	return dedupe.Terms{
		Policy: p.Name, Effect: t.Effect, Safety: t.Safety, KeyRetention: t.KeyRetention,
		Attempts: p.Attempts, Timeout: p.Timeout, BackoffBase: p.BackoffBase, BackoffCap: p.BackoffCap,
		ThrottleBase: p.ThrottleBase, MaxRetryAfter: p.MaxRetryAfter, MaxRepairs: p.MaxRepairs,
		Dependency: t.Dependency, Reconcile: t.Reconcile, Run: p.Run, Window: window,
	}
}
