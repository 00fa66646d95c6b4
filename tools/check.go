package tools

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

func (p problems) join() error { return errors.Join(p...) }

// check says everything that is wrong, in the order of names.
func (c *Catalogue) check(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.policies)) {
		checkPolicy(c.policies[name], p)
	}
	for _, name := range slices.Sorted(maps.Keys(c.dependencies)) {
		checkDependency(c.dependencies[name], p)
	}
	for _, name := range c.Names() {
		c.checkTool(c.tools[name], p)
	}
	for _, tenant := range c.Tenants() {
		if !schemas.ValidTenant(tenant) {
			p.add("tenant %q: want 1 to 32 of [a-z0-9_-]", tenant)
		}
		for _, glob := range c.tenants[tenant] {
			if glob == "" || strings.Contains(strings.TrimSuffix(glob, "*"), "*") {
				p.add("tenant %s: tools pattern %q: want a tool's name, or a prefix and * at the end", tenant, glob)
			}
		}
	}
}

// checkPolicy refuses a policy that leaves a limit out: there are no built-in ones.
// Zero is a limit for side effects, repairs and the longest stated wait.
func checkPolicy(l dispatcher.Policy, p *problems) {
	if l.Name == "" {
		p.add("policy without a name")
	}
	for _, need := range []struct {
		what string
		ok   bool
	}{
		{"attempts: want at least 1", l.Attempts >= 1},
		{"timeout: want more than 0", l.Timeout > 0},
		{"backoff base: want more than 0", l.BackoffBase > 0},
		{"backoff cap: want at least the base", l.BackoffCap >= l.BackoffBase},
		{"throttle base: want more than 0", l.ThrottleBase > 0},
		{"longest stated wait: want 0 or more", l.MaxRetryAfter >= 0},
		{"longest deadline: want more than the timeout", l.MaxDeadline > l.Timeout},
		{"repairs of a run: want 0 or more", l.MaxRepairs >= 0},
		{"attempts of a run: want at least 1", l.Run.Attempts >= 1},
		{"side effects of a run: want 0 or more", l.Run.SideEffects >= 0},
		{"elapsed time of a run: want more than the timeout", l.Run.Elapsed > l.Timeout},
		{"accounts of a run: want at least 1", l.Run.Accounts >= 1},
	} {
		if !need.ok {
			p.add("policy %s: %s", l.Name, need.what)
		}
	}
}

func checkDependency(d dispatcher.Dependency, p *problems) {
	if d.Quota.Ratio < 0 || d.Quota.Burst < 1 || d.Quota.RefillPerSec < 0 {
		p.add("dependency %s: retry quota: want a burst of at least 1, and a ratio and refill of 0 or more", d.Name)
	}
	if d.Rate < 0 || d.Burst < 0 {
		p.add("dependency %s: rate: want 0 or more", d.Name)
	}
	b := d.Breaker
	if b == (dispatcher.BreakerLimits{}) {
		return
	}
	if b.Consecutive < 0 || b.Ratio < 0 || b.Ratio > 1 || b.Least < 0 || b.Cooldown <= 0 || b.Consecutive == 0 && b.Ratio == 0 {
		p.add("dependency %s: breaker: want a cooldown, and failures in a row or a ratio in (0, 1] that open it", d.Name)
	}
}

func (c *Catalogue) checkTool(t *dispatcher.Tool, p *problems) {
	if !schemas.ValidTool(t.Name) {
		p.add("tool %q: want up to 8 segments of [A-Za-z0-9_-]{1,64} joined by dots, 160 characters in all", t.Name)
	}
	if t.Executor == nil {
		p.add("tool %s: has no executor", t.Name)
	}
	if t.Concurrency < 1 {
		p.add("tool %s: concurrency %d: want at least 1", t.Name, t.Concurrency)
	}
	if !(t.JobsShare > 0 && t.JobsShare <= 1) {
		p.add("tool %s: jobs share %v: want more than 0 and at most 1", t.Name, t.JobsShare)
	}
	checkSafety(t, p)
	c.checkPolicies(t, p)
	if t.Reconcile != "" {
		c.checkReconcile(t, p)
	}
}

func checkSafety(t *dispatcher.Tool, p *problems) {
	switch {
	case t.Effect != dedupe.Read && t.Effect != dedupe.Write:
		p.add("tool %s: effect %q: want read or write", t.Name, t.Effect)
	case t.Effect == dedupe.Read && t.Safety != "":
		p.add("tool %s: a read needs no retry safety, it may always be repeated; if it changes anything it is a write", t.Name)
	case t.Safety == dedupe.IdempotencyKey && t.KeyRetention <= 0:
		p.add("tool %s: retry safety %s needs a key retention: how long does the tool remember a key?", t.Name, t.Safety)
	case t.Safety != dedupe.IdempotencyKey && t.KeyRetention != 0:
		p.add("tool %s: a key retention says something only with retry safety %s", t.Name, dedupe.IdempotencyKey)
	case t.Safety != "" && t.Safety != dedupe.IdempotencyKey && t.Safety != dedupe.Idempotent && t.Safety != dedupe.Never:
		p.add("tool %s: retry safety %q does not exist", t.Name, t.Safety)
	}
}

func (c *Catalogue) checkPolicies(t *dispatcher.Tool, p *problems) {
	served := 0
	for _, lane := range slices.Sorted(maps.Keys(t.Policies)) {
		if lane != schemas.Calls && lane != schemas.Jobs {
			p.add("tool %s: lane %q does not exist", t.Name, lane)
		}
		for _, name := range t.Policies[lane] {
			served++
			if _, ok := c.policies[name]; !ok {
				p.add("tool %s: policy %q does not exist", t.Name, name)
			}
		}
	}
	if served == 0 {
		p.add("tool %s: has no policy, so nothing limits it", t.Name)
	}
}

func (c *Catalogue) checkReconcile(t *dispatcher.Tool, p *problems) {
	hook, ok := c.tools[t.Reconcile]
	switch {
	case !ok:
		p.add("tool %s: reconcile tool %q does not exist", t.Name, t.Reconcile)
	case hook.Effect != dedupe.Read:
		p.add("tool %s: reconcile tool %s is not a read: asking what happened must change nothing", t.Name, t.Reconcile)
	case t.Effect == dedupe.Read:
		p.add("tool %s: is a read, so there is nothing to reconcile", t.Name)
	}
}
