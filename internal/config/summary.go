package config

import (
	"maps"
	"slices"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// ToolSummary is what a configuration comes to for one tool.
type ToolSummary struct {
	Tool         string
	Kind         string // http, exec, nats, function
	Effect       string
	Safety       string // of a write; "" for a read, which may always be repeated
	KeyRetention Duration
	Dependency   string
	Concurrency  int
	Reconcile    string
	Policies     []PolicySummary // by lane, the default first
}

// PolicySummary is the worst that a call may cost under one policy.
type PolicySummary struct {
	Lane     schemas.Lane
	Name     string
	Attempts int
	Timeout  Duration
	// WorstTime is how long a call may last: all attempts running into their timeout
	// and the longest waits of our own between them, but never beyond max_deadline.
	// A wait stated by the tool may take its place up to max_deadline.
	WorstTime   Duration
	MaxDeadline Duration
}

// Check returns what the configuration comes to, by tool, sorted by name.
func Check(c *Config) []ToolSummary {
	var out []ToolSummary
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t := c.Tools[name]
		s := ToolSummary{
			Tool: name, Effect: t.Effect, Safety: t.RetrySafety, KeyRetention: t.KeyRetention,
			Dependency: t.Dependency, Concurrency: t.Concurrency, Reconcile: t.Reconcile,
		}
		if kinds := t.kinds(); len(kinds) > 0 {
			s.Kind = kinds[0]
		}
		if s.Effect == string(dedupe.Write) && s.Safety == "" {
			s.Safety = string(dedupe.Never)
		}
		if s.Dependency == "" {
			s.Dependency = name
		}
		s.Policies = append(c.worst(schemas.Calls, t.Policies.Calls), c.worst(schemas.Jobs, t.Policies.Jobs)...)
		out = append(out, s)
	}
	return out
}

func (c *Config) worst(lane schemas.Lane, policies []string) []PolicySummary {
	var out []PolicySummary
	for _, name := range policies {
		p := c.Policies[name]
		out = append(out, PolicySummary{
			Lane: lane, Name: name, Attempts: p.Attempts, Timeout: p.Timeout,
			WorstTime: min(plus(busy(p), waits(p), p.MaxDeadline), p.MaxDeadline), MaxDeadline: p.MaxDeadline,
		})
	}
	return out
}

// longest stands for a sum that no longer fits.
const longest = Duration(1<<63 - 1)

// busy is the time of all attempts together.
func busy(p Policy) Duration {
	if p.Attempts > 0 && p.Timeout > longest/Duration(p.Attempts) {
		return longest
	}
	return Duration(p.Attempts) * p.Timeout
}

// waits is the sum of the ceilings between the attempts. It stops at max_deadline,
// which also bounds the loop.
func waits(p Policy) Duration {
	var sum Duration
	ceiling := min(p.Backoff.Base, p.Backoff.Cap)
	for range p.Attempts - 1 {
		if sum = plus(sum, ceiling, p.MaxDeadline); sum >= p.MaxDeadline || ceiling <= 0 {
			break
		}
		ceiling = plus(ceiling, ceiling, p.Backoff.Cap)
	}
	return sum
}

// plus adds without going beyond limit.
func plus(a, b, limit Duration) Duration {
	if a > limit-b {
		return limit
	}
	return a + b
}

// Warnings returns what is doubtful, in the order of the file.
func (c *Config) Warnings() []Problem {
	out := slices.Clone(c.warnings)
	sortProblems(out)
	return out
}
