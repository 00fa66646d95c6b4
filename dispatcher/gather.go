package dispatcher

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// call is a delivery, understood as far as it can be.
type call struct {
	Delivery
	request     schemas.Request
	id          string
	fingerprint string
	ref         dedupe.Ref
	tool        *Tool // nil: not in the catalogue
	policy      Policy
	allowed     bool
	malformed   error
	tooLarge    bool
	badArgs     error
	published   time.Time
	deadline    time.Time
	slot        bool // the caller holds a concurrency slot, or needs none
}

// gather reads a delivery. What it cannot read becomes a fact, not an error.
func (d *Dispatcher) gather(dl Delivery, now time.Time) *call {
	c := &call{Delivery: dl, slot: !dl.Endpoint, published: dl.Origin.Time}
	if c.published.IsZero() || dl.Endpoint {
		c.published = now
	}
	if dl.Invalid != nil {
		c.malformed = dl.Invalid
		return c
	}
	d.lookUp(c)
	var err error
	h := dl.Header
	if dl.Retry { // our own headers come on top of the agent's, which were measured when they came
		h, _ = h.Agent()
	}
	c.request, err = schemas.ParseRequest(dl.Lane, dl.Tenant, dl.Tool, h, dl.Body, d.defaults(c))
	if schemas.ValidRun(c.request.Run) && schemas.ValidKey(c.request.Key) { // known even to a refusal
		c.id = dedupe.CallID(dl.Tenant, schemas.Root(c.request.Run), dl.Tool, c.request.Key)
		c.ref = dedupe.Ref{Tenant: dl.Tenant, Root: schemas.Root(c.request.Run), Call: c.id}
	}
	if err != nil {
		c.malformed = err
		return c
	}
	if dl.Endpoint { // what was filled in travels with the call from here on
		c.request.Header.Set(schemas.HeaderKey, c.request.Key)
		c.request.Header.Set(schemas.HeaderDeadline, c.request.Deadline.Format(time.RFC3339Nano))
	}
	if c.tooLarge = len(dl.Body) > d.cfg.MaxBody; c.tooLarge {
		return c
	}
	if c.fingerprint, err = dedupe.Fingerprint(dl.Body); err != nil {
		c.malformed = &schemas.Malformed{Field: "body", Problem: err.Error()}
		return c
	}
	d.choosePolicy(c)
	return c
}

// defaults lets the request/reply endpoint leave out the key and the deadline, which is
// the window of the policy then. A tool that is not served here has none, and is refused
// for that and not for a deadline: any will do.
func (d *Dispatcher) defaults(c *call) schemas.Defaults {
	if !c.Endpoint {
		return schemas.Defaults{}
	}
	policy := c.policy
	if name := c.Header.Get(schemas.HeaderPolicy); c.allowed && slices.Contains(c.tool.Policies[c.Lane], name) {
		policy, _ = d.cfg.Catalogue.Policy(name)
	}
	window := cmp.Or(policy.MaxDeadline, time.Hour)
	return schemas.Defaults{Key: DerivedKey, Deadline: c.published.Add(window)}
}

// DerivedKey is the key of a call that names none: the hash of run, tool and
// canonical arguments. Arguments without a canonical form have no key.
func DerivedKey(tool, run string, arguments []byte) string {
	f, err := dedupe.Fingerprint(arguments)
	if err != nil {
		return "unreadable" // the arguments themselves are refused a moment later
	}
	return "args:" + dedupe.CallID("", run, tool, f)
}

// lookUp finds the tool and the lane's default policy.
func (d *Dispatcher) lookUp(c *call) {
	tool, ok := d.cfg.Catalogue.Tool(c.Tool)
	if !ok {
		return
	}
	c.tool = tool
	c.allowed = d.cfg.Catalogue.Allowed(c.Tenant, c.Tool) && len(tool.Policies[c.Lane]) > 0
	if c.allowed {
		c.policy, _ = d.cfg.Catalogue.Policy(tool.Policies[c.Lane][0])
	}
}

// choosePolicy applies the header's choice and what follows from it.
func (d *Dispatcher) choosePolicy(c *call) {
	if c.tool == nil || !c.allowed {
		return
	}
	if name := c.request.Policy; name != "" {
		if !slices.Contains(c.tool.Policies[c.Lane], name) {
			c.malformed = &schemas.Malformed{Field: schemas.HeaderPolicy, Problem: "is not a policy this tool allows on this lane"}
			return
		}
		c.policy, _ = d.cfg.Catalogue.Policy(name)
	}
	c.deadline = c.request.Deadline.Add(d.cfg.Skew)
	if latest := c.published.Add(c.policy.MaxDeadline); latest.Before(c.deadline) {
		c.deadline = latest
	}
	if c.tool.Arguments != nil {
		c.badArgs = c.tool.Arguments.Validate(c.Body)
	}
}

// source says what the delivery is to a record. A lane message older than the one
// the record came from can only be a carrier whose acknowledgement was lost.
func (c *call) source(r *dedupe.Record) gate.Source {
	switch {
	case r == nil || c.Endpoint:
		return gate.Submission
	case c.Retry && c.Token == r.Token:
		return gate.Carrier
	case c.Retry:
		return gate.Stale
	case c.Origin.Stream != r.Origin.Stream:
		if c.Origin.Time.After(r.Origin.Time) {
			return gate.Submission
		}
		return gate.Stale // it came before what the record came from: somebody has asked again since, another way
	case c.Origin.Sequence > r.Origin.Sequence:
		return gate.Submission
	case c.Origin.Sequence == r.Origin.Sequence && r.OnLane:
		return gate.Carrier
	default:
		return gate.Stale
	}
}

func known(r *dedupe.Record) gate.Known {
	switch {
	case r == nil:
		return gate.Unknown
	case r.State.Running():
		return gate.InFlight
	case r.State == dedupe.Waiting:
		return gate.Waiting
	case r.Released:
		return gate.Released
	default:
		return gate.Terminal
	}
}

// admission is what one look at the ledger found, and what came of it.
type admission struct {
	decision gate.Decision
	record   *dedupe.Record // as committed, or as found
	run      *budget.Run
	latest   time.Time // the last start that fits
	problem  error     // of a settle before any attempt
}

// facts lays the call against the ledger's view. It changes run only by opening
// the accounts on the call's path, which stays without effect unless committed.
func (c *call) facts(v dedupe.View, a *admission, now time.Time, p *permit) gate.BeforeFacts {
	r := v.Record
	f := gate.BeforeFacts{
		Known: known(r), Source: c.source(r), Unpublished: v.Unpublished, ToolKnown: c.tool != nil, ToolGone: c.Gone,
		TenantAllowed: c.allowed, Job: c.Lane == schemas.Jobs, Hold: p.hold,
	}
	if r != nil {
		f.Conflict = r.Fingerprint != c.fingerprint
	}
	if again := f.Known == gate.Released && f.Source == gate.Submission; r == nil || again {
		c.freshFacts(v, a, now, &f)
	} else {
		c.waitingFacts(r, a, now, &f)
	}
	if p.hold != gate.NoHold {
		f.HoldFits = !a.latest.Before(later(p.until, now))
	}
	return f
}

// payer is the run path that a generation is charged to, with the limits that the
// message names for it: its own run, unless an operator has moved the call to
// another, which then goes on paying.
func (c *call) payer(r *dedupe.Record) (string, budget.Named) {
	if r != nil && schemas.Root(r.Run) != schemas.Root(c.request.Run) {
		return r.Run, budget.Named{}
	}
	return c.request.Run, budget.Named(c.request.Limits)
}

// freshFacts are those of a call that would be its generation's first attempt.
func (c *call) freshFacts(v dedupe.View, a *admission, now time.Time, f *gate.BeforeFacts) {
	if c.tool == nil || !c.allowed {
		return
	}
	t := Terms(c.tool, c.policy, c.deadline.Sub(c.published))
	path, named := c.payer(v.Record)
	if a.run == nil {
		a.run = budget.New(c.Tenant, schemas.Root(path), c.published)
	}
	err := a.run.Open(path, named, t.Run, now)
	f.TooManyAccounts = errors.Is(err, budget.ErrTooManyAccounts)
	f.Cancelled = a.run.Cancelled(path)
	f.Unsafe = t.UnsafeAt(now, time.Time{})
	f.Forgotten = f.Unsafe && (c.Retry || c.published.Before(v.Horizon)) // a retry whose record is gone has run before
	f.AttemptsLeft = t.Attempts > 0
	f.Budget = a.run.Check(path, t.Write())
	f.FirstAttempt, f.BadArguments, f.RepairsLeft = true, c.badArgs != nil, a.run.Repairs < t.MaxRepairs
	a.fit(f, now, t, c.deadline, path)
}

// waitingFacts are those of a call that has a record and terms of its own.
func (c *call) waitingFacts(r *dedupe.Record, a *admission, now time.Time, f *gate.BeforeFacts) {
	if r.State != dedupe.Waiting || a.run == nil {
		return
	}
	f.Due = !now.Before(r.Due)
	f.Cancelled = r.Cancel != "" || a.run.Cancelled(r.Run)
	f.Ambiguous = r.Ambiguous
	f.Unsafe = r.Terms.UnsafeAt(now, r.FirstAttempt)
	f.AttemptsLeft = r.Tries < r.Terms.Attempts
	f.Budget = a.run.Check(r.Run, r.Terms.Write())
	f.FirstAttempt, f.BadArguments, f.RepairsLeft = r.Tries == 0, c.badArgs != nil, a.run.Repairs < r.Terms.MaxRepairs // a replay is looked at like anything new
	a.fit(f, now, r.Terms, r.Deadline, r.Run)
}

func (a *admission) fit(f *gate.BeforeFacts, now time.Time, t dedupe.Terms, deadline time.Time, path string) {
	runDeadline, _ := a.run.Deadline(path)
	margin := gate.Margin(t.Window)
	f.Fit = gate.FitAt(now, now, t.Timeout, margin, deadline, runDeadline)
	a.latest = gate.LatestStart(t.Timeout, margin, deadline, runDeadline)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
