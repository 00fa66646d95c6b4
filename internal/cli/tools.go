package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/schemas"
)

func (s *shell) toolsCommand() *cobra.Command {
	return group("tools", "Tools: the catalogue, its health, pausing, contract tests",
		s.toolListCommand(), s.toolShowCommand(), s.checkCommand(),
		s.switchCommand("pause", "Take no more calls of a tool; they wait", control.VerbToolPause),
		s.switchCommand("resume", "Take a paused tool's calls again", control.VerbToolResume))
}

func (s *shell) toolListCommand() *cobra.Command {
	var q control.ToolsQuery
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the tools that are served", Args: none,
		Example: "  tollgate tools ls --tool 'crm.*' --effect write\n  tollgate tools ls --state paused",
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := ask[control.ToolsPage](c.Context(), s, control.VerbToolsList, q)
			if err != nil {
				return err
			}
			return s.printTools(p)
		}}
	f := c.Flags()
	f.StringVar(&q.Tool, "tool", "", "tool, or a glob such as 'crm.*'")
	f.StringVar((*string)(&q.Effect), "effect", "", "read or write")
	f.StringVar(&q.State, "state", "", "serving, paused, or broken: its dependency's breaker is not closed")
	complete(c, "effect", "read", "write")
	complete(c, "state", control.ToolStates...)
	return c
}

func (s *shell) printTools(p control.ToolsPage) error {
	if s.json {
		p.Tools = some(p.Tools)
		return s.printJSON("ToolList", p)
	}
	if len(p.Tools) == 0 {
		s.say("No tools are served, or none matches.")
		s.next("tollgate config init", "tollgate config check")
		return nil
	}
	g := &grid{heads: []string{"TOOL", "KIND", "EFFECT", "RETRY SAFETY", "POLICIES", "RUNNING", "BACKLOG", "BREAKER", "STATE"}}
	for _, t := range p.Tools {
		g.add(t.Name, t.Kind, string(t.Effect), string(t.Safety), policies(t.Policies), fmt.Sprintf("%d/%d", t.Running, t.Concurrency), fmt.Sprint(total(t.Backlog)), t.Health.Breaker, t.State())
	}
	s.printGrid(g)
	s.next("tollgate tools show "+p.Tools[0].Name, "tollgate call "+p.Tools[0].Name+" '{…}'")
	return nil
}

// policies are the allowed ones by lane, the default first.
func policies(byLane map[schemas.Lane][]string) string {
	var parts []string
	for _, lane := range slices.Sorted(maps.Keys(byLane)) {
		parts = append(parts, string(lane)+":"+strings.Join(byLane[lane], ","))
	}
	return strings.Join(parts, " ")
}

func total(backlog map[string]uint64) uint64 {
	var n uint64
	for _, x := range backlog {
		n += x
	}
	return n
}

func (s *shell) toolShowCommand() *cobra.Command {
	return &cobra.Command{Use: "show TOOL", Short: "One tool: how it may be called, and how it is", Args: exactly(1, "a tool"), ValidArgsFunction: s.completeTools,
		RunE: func(c *cobra.Command, args []string) error {
			d, err := ask[control.ToolDetail](c.Context(), s, control.VerbToolShow, control.ToolQuery{Tool: args[0]})
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("Tool", d)
			}
			s.printTool(&d)
			return nil
		}}
}

func (s *shell) printTool(d *control.ToolDetail) {
	s.line("%s  %s  %s%s", d.Name, d.Kind, d.Effect, suffix(" ", string(d.Safety)))
	if d.KeyRetention > 0 {
		s.line("  remembers   a key for %s", brief(d.KeyRetention))
	}
	s.line("  policies    %s", policies(d.Policies))
	for _, p := range d.Limits.Policies {
		s.line("  %-11s %d attempts of %s each, %s to %s apart, a deadline of at most %s", p.Name, p.Attempts, brief(p.Timeout), brief(p.BackoffBase), brief(p.BackoffCap), brief(p.MaxDeadline))
	}
	s.line("  dependency  %s  breaker %s  retry quota %.1f tokens", d.Dependency, d.Health.Breaker, d.Health.Tokens)
	s.line("  running     %d of %d, jobs at most %d", d.Running, d.Concurrency, d.JobsAtMost)
	for _, name := range slices.Sorted(maps.Keys(d.Backlog)) {
		s.line("  backlog     %s %d", name, d.Backlog[name])
	}
	if d.Reconcile != "" {
		s.line("  reconcile   %s", d.Reconcile)
	}
	if len(d.Redact) > 0 {
		s.line("  hidden      %s", strings.Join(d.Redact, " "))
	}
	if p := d.Paused; p != nil {
		s.line("  PAUSED      %s by %s%s", s.at(p.At), oneLine(p.By), suffix(": ", oneLine(p.Why)))
	}
	if len(d.Schema) > 0 {
		s.line("SCHEMA")
		s.line("%s", indented(d.Schema))
	}
	s.next("tollgate call "+d.Name+" '{…}'", "tollgate tools check "+d.Name+" --args '{…}'")
}

func (s *shell) switchCommand(name, short, verb string) *cobra.Command {
	var why string
	c := &cobra.Command{Use: name + " TOOL", Short: short, Args: exactly(1, "a tool"), ValidArgsFunction: s.completeTools,
		RunE: func(c *cobra.Command, args []string) error {
			return s.switchTool(c.Context(), verb, control.ToolQuery{Tool: args[0], Why: why})
		}}
	c.Flags().StringVar(&why, "why", "", "why, for the audit")
	acceptYes(c)
	return c
}

func (s *shell) switchTool(ctx context.Context, verb string, q control.ToolQuery) error {
	d, err := ask[control.ToolDetail](ctx, s, verb, q)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON("Tool", d)
	}
	if d.Paused != nil {
		s.line("%s is paused: its calls wait, until their deadlines", d.Name)
		s.next("tollgate tools resume " + d.Name)
	} else {
		s.line("%s is served", d.Name)
	}
	return nil
}
