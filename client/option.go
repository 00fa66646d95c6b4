package client

import (
	"strconv"
	"time"

	"tollgate/schemas"
)

// settings are what a call is made with.
type settings struct {
	prefix, tenant, run, key, policy string
	toolCallID                       string
	traceParent, traceState          string
	deadline                         time.Time
	within                           time.Duration
	runAttempts, runSideEffects      *int
	runDeadline                      time.Time
	job, write                       bool
	generation                       int
}

// Option sets something of one call, or of every call when given to [Connect].
type Option func(*settings)

// Run names the run path the call is charged to: "run_42", or "run_42/researcher"
// for a child agent of run_42.
func Run(path string) Option { return func(s *settings) { s.run = path } }

// Key names the logical operation, see [StepKey].
func Key(key string) Option { return func(s *settings) { s.key = key } }

// Deadline is when the call has to be over, whatever it is doing then.
func Deadline(at time.Time) Option { return func(s *settings) { s.deadline, s.within = at, 0 } }

// Within is a [Deadline] d after the call is made.
func Within(d time.Duration) Option {
	return func(s *settings) { s.deadline, s.within = time.Time{}, d }
}

// Tenant is who calls; "default" when left out.
func Tenant(name string) Option { return func(s *settings) { s.tenant = name } }

// Policy picks another of the policies that the tool allows.
func Policy(name string) Option { return func(s *settings) { s.policy = name } }

// ToolCallID is the model's own ID of the call. It is echoed in the outcome.
func ToolCallID(id string) Option { return func(s *settings) { s.toolCallID = id } }

// RunAttempts limits the attempts of the run path, its children included. A limit
// can be lowered by a later call, never raised.
func RunAttempts(n int) Option { return func(s *settings) { s.runAttempts = &n } }

// RunSideEffects limits the dispatches of writes of the run path.
func RunSideEffects(n int) Option { return func(s *settings) { s.runSideEffects = &n } }

// RunDeadline is when the whole run path has to be over.
func RunDeadline(at time.Time) Option { return func(s *settings) { s.runDeadline = at } }

// Trace carries a W3C trace context to the tool.
func Trace(traceparent, tracestate string) Option {
	return func(s *settings) { s.traceParent, s.traceState = traceparent, tracestate }
}

// Write says that the tool changes external state, which this package does not know.
// Such a call is refused here once the run's side effects are spent.
func Write() Option { return func(s *settings) { s.write = true } }

// Job submits to the lane of background jobs. Only [Client.Submit] has lanes.
func Job() Option { return func(s *settings) { s.job = true } }

// After says that o, which was unavailable and so freed its key, is known: the
// outcome that is waited for is a later one.
func After(o *Outcome) Option {
	return func(s *settings) {
		if o != nil && o.Status == schemas.Unavailable {
			s.generation = o.Generation + 1
		}
	}
}

// Prefix is the first part of every subject, where it is not "tollgate".
func Prefix(p string) Option { return func(s *settings) { s.prefix = p } }

func (c *Client) settings(opts []Option) settings {
	s := c.defaults
	for _, o := range opts {
		o(&s)
	}
	return s
}

// header writes the settings as the wire contract has them.
func (s *settings) header() schemas.Header {
	h := schemas.Header{}
	text := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	number := func(name string, n *int) {
		if n != nil {
			h[name] = []string{strconv.Itoa(*n)}
		}
	}
	instant := func(name string, t time.Time) {
		if !t.IsZero() {
			h[name] = []string{t.UTC().Format(time.RFC3339Nano)}
		}
	}
	text(schemas.HeaderRun, s.run)
	text(schemas.HeaderKey, s.key)
	instant(schemas.HeaderDeadline, s.deadline)
	number(schemas.HeaderRunAttempts, s.runAttempts)
	number(schemas.HeaderRunSideEffects, s.runSideEffects)
	instant(schemas.HeaderRunDeadline, s.runDeadline)
	text(schemas.HeaderPolicy, s.policy)
	text(schemas.HeaderToolCallID, s.toolCallID)
	text(schemas.HeaderTraceParent, s.traceParent)
	text(schemas.HeaderTraceState, s.traceState)
	return h
}
