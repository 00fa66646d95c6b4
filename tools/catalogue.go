// Package tools holds the catalogue: which tools exist, under which policies they
// run, what they stand on and who may call them. Its subfolders are the executors.
//
// The catalogue decides nothing and runs nothing; it is checked as a whole when it
// is built and never changes afterwards. New settings are a new catalogue.
package tools

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tollgate/budget"
	"tollgate/dispatcher"
)

// DefaultTenant is the tenant of a catalogue that names none.
const DefaultTenant = "default"

// Catalogue implements [dispatcher.Catalogue]. It is safe for concurrent use.
type Catalogue struct {
	tools        map[string]*dispatcher.Tool
	policies     map[string]dispatcher.Policy
	dependencies map[string]dispatcher.Dependency
	tenants      map[string][]string
}

// DefaultDependency is what a tool stands on that names no dependency: a retry
// quota of one token per ten successes, 20 at most, and a breaker.
func DefaultDependency(name string) dispatcher.Dependency {
	return dispatcher.Dependency{Name: name, Quota: DefaultQuota(), Breaker: DefaultBreaker()}
}

// DefaultQuota is the retry quota of a dependency that names none.
func DefaultQuota() budget.QuotaLimits { return budget.QuotaLimits{Ratio: 0.1, Burst: 20} }

// DefaultBreaker is the breaker of a dependency that names none.
func DefaultBreaker() dispatcher.BreakerLimits {
	return dispatcher.BreakerLimits{Consecutive: 5, Ratio: 0.5, Least: 20, Cooldown: 30 * time.Second}
}

// New checks everything together and returns the catalogue, or all problems joined.
// A tool without a dependency gets one of its own, named after it. tenants maps a
// tenant to the tools it may call: names, or a prefix ending in *. No tenants at
// all means that [DefaultTenant] may call everything.
func New(tools []dispatcher.Tool, policies []dispatcher.Policy, dependencies []dispatcher.Dependency, tenants map[string][]string) (*Catalogue, error) {
	c := &Catalogue{
		tools:        make(map[string]*dispatcher.Tool, len(tools)),
		policies:     make(map[string]dispatcher.Policy, len(policies)),
		dependencies: make(map[string]dispatcher.Dependency, len(dependencies)),
		tenants:      make(map[string][]string, len(tenants)),
	}
	var p problems
	for _, policy := range policies {
		if _, twice := c.policies[policy.Name]; twice {
			p.add("policy %s: there are two of that name", policy.Name)
		}
		c.policies[policy.Name] = policy
	}
	for _, d := range dependencies {
		if _, twice := c.dependencies[d.Name]; twice {
			p.add("dependency %s: there are two of that name", d.Name)
		}
		c.dependencies[d.Name] = d
	}
	named := maps.Clone(c.dependencies)
	for _, t := range tools {
		if _, twice := c.tools[t.Name]; twice {
			p.add("tool %s: there are two of that name", t.Name)
		}
		c.tools[t.Name] = c.adopt(t, named, &p)
	}
	for tenant, globs := range tenants {
		c.tenants[tenant] = slices.Clone(globs)
	}
	if len(tenants) == 0 {
		c.tenants[DefaultTenant] = []string{"*"}
	}
	c.check(&p)
	if err := p.join(); err != nil {
		return nil, err
	}
	return c, nil
}

// adopt returns the catalogue's own copy of t, with a dependency. named are those
// the caller gave: a tool's own must not be shared by the accident of its name.
func (c *Catalogue) adopt(t dispatcher.Tool, named map[string]dispatcher.Dependency, p *problems) *dispatcher.Tool {
	t.Policies = maps.Clone(t.Policies)
	switch _, known := named[t.Dependency]; {
	case t.Dependency != "" && !known:
		p.add("tool %s: dependency %q does not exist", t.Name, t.Dependency)
	case t.Dependency != "":
	default:
		if _, taken := named[t.Name]; taken {
			p.add("tool %s: a dependency has the tool's name, but the tool does not name it: write dependency: %s, or rename it", t.Name, t.Name)
		}
		t.Dependency = t.Name
		c.dependencies[t.Name] = DefaultDependency(t.Name)
	}
	return &t
}

// Tool returns a tool by its name.
func (c *Catalogue) Tool(name string) (*dispatcher.Tool, bool) {
	t, ok := c.tools[name]
	return t, ok
}

// Policy returns a policy by its name.
func (c *Catalogue) Policy(name string) (dispatcher.Policy, bool) {
	p, ok := c.policies[name]
	return p, ok
}

// Dependency returns a dependency by its name, a tool's own included.
func (c *Catalogue) Dependency(name string) (dispatcher.Dependency, bool) {
	d, ok := c.dependencies[name]
	return d, ok
}

// Allowed reports whether a tenant may call a tool. It does not say that the tool
// exists: an agent must not learn names by asking.
func (c *Catalogue) Allowed(tenant, tool string) bool {
	return slices.ContainsFunc(c.tenants[tenant], func(glob string) bool { return match(glob, tool) })
}

// match compares a name with a glob, whose only wildcard is a * at its end.
func match(glob, name string) bool {
	if prefix, wild := strings.CutSuffix(glob, "*"); wild {
		return strings.HasPrefix(name, prefix)
	}
	return glob == name
}

// Names returns the tools' names, sorted.
func (c *Catalogue) Names() []string { return slices.Sorted(maps.Keys(c.tools)) }

// Tenants returns the tenants' names, sorted.
func (c *Catalogue) Tenants() []string { return slices.Sorted(maps.Keys(c.tenants)) }

// Dependencies returns the dependencies' names, sorted, the tools' own included.
func (c *Catalogue) Dependencies() []string { return slices.Sorted(maps.Keys(c.dependencies)) }

var _ dispatcher.Catalogue = (*Catalogue)(nil)

// problems collects what is wrong, so that all of it is said at once.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }
