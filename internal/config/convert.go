package config

import (
	"maps"
	"slices"

	"tollgate/budget"
	"tollgate/dispatcher"
	"tollgate/tools"
)

// asPolicies returns the policies as the dispatcher knows them, by name.
func (c *Config) asPolicies() []dispatcher.Policy {
	var out []dispatcher.Policy
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		p := c.Policies[name]
		out = append(out, dispatcher.Policy{
			Name: name, Attempts: p.Attempts, Timeout: p.Timeout.D(),
			BackoffBase: p.Backoff.Base.D(), BackoffCap: p.Backoff.Cap.D(), ThrottleBase: p.Backoff.ThrottleBase.D(),
			MaxRetryAfter: p.MaxRetryAfter.D(), MaxDeadline: p.MaxDeadline.D(), MaxRepairs: p.Run.MaxRepairs,
			Run: budget.Maxima{
				Attempts: p.Run.Attempts, SideEffects: p.Run.SideEffects, Elapsed: p.Run.Elapsed.D(), Accounts: p.Run.MaxAccounts,
			},
		})
	}
	return out
}

func (c *Config) asDependencies() []dispatcher.Dependency {
	var out []dispatcher.Dependency
	for _, name := range slices.Sorted(maps.Keys(c.Dependencies)) {
		given := c.Dependencies[name]
		d := tools.DefaultDependency(name)
		if q := given.Quota; q != nil {
			d.Quota = budget.QuotaLimits{Ratio: q.Ratio, Burst: q.Burst, RefillPerSec: q.Refill}
		}
		if b := given.Breaker; b != nil {
			d.Breaker = b.limits()
		}
		if r := given.Rate; r != nil {
			d.Rate, d.Burst = r.PerSecond, r.Burst
		}
		out = append(out, d)
	}
	return out
}

// limits are the zero value when the breaker is off.
func (b *Breaker) limits() dispatcher.BreakerLimits {
	if b.Off {
		return dispatcher.BreakerLimits{}
	}
	r := b.Rules
	return dispatcher.BreakerLimits{Consecutive: r.Consecutive, Ratio: r.Ratio, Least: r.Least, Cooldown: r.Cooldown.D()}
}

func (c *Config) asTenants() map[string][]string {
	out := make(map[string][]string, len(c.Tenants))
	for name, t := range c.Tenants {
		out[name] = t.Tools
	}
	return out
}

// Path resolves a relative path of the file, such as the ledger's, against the
// file's folder.
func (c *Config) Path(name string) string { return c.path(name) }

// File is where the configuration was read from.
func (c *Config) File() string { return c.file }
