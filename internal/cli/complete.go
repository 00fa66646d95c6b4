package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

// complete offers fixed values for a flag.
func complete(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("cli: " + err.Error()) // the flag was not declared
	}
}

// completionTime bounds what a shell waits for when a key is pressed.
const completionTime = 300 * time.Millisecond

// live runs a completion against the dispatcher. Without one there is nothing to
// offer, which is no error.
func (s *shell) live(ask func(ctx context.Context) []string) ([]string, cobra.ShellCompDirective) {
	subjects, err := schemas.NewSubjects(s.prefix)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s.timeout, s.subjects = completionTime, subjects
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	return ask(ctx), cobra.ShellCompDirectiveNoFileComp
}

// completeLive offers for a flag what there is now.
func completeLive(c *cobra.Command, flag string, offer func() []string) {
	err := c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return offer(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic("cli: " + err.Error()) // the flag was not declared
	}
}

func (s *shell) completeTools(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return s.live(s.tools)
}

func (s *shell) tools(ctx context.Context) []string {
	p, err := ask[control.ToolsPage](ctx, s, control.VerbToolsList, control.Empty{})
	if err != nil {
		return nil
	}
	var out []string
	for _, t := range p.Tools {
		out = append(out, fmt.Sprintf("%s\t%s %s", t.Name, t.Kind, t.Effect))
	}
	return out
}

func (s *shell) toolNames() []string {
	out, _ := s.live(s.tools)
	return out
}

func (s *shell) groupNames() []string { return s.groupsBy("fingerprint") }
func (s *shell) codeNames() []string  { return s.groupsBy("code") }

// groupsBy offers the groups of active letters, each with what it is.
func (s *shell) groupsBy(key string) []string {
	out, _ := s.live(func(ctx context.Context) []string {
		p, err := ask[control.GroupsPage](ctx, s, control.VerbGroups, control.GroupsQuery{By: key})
		if err != nil {
			return nil
		}
		var out []string
		for _, g := range p.Groups {
			out = append(out, fmt.Sprintf("%s\t%s %s %s", g.ID, count(g.Count, "letter"), g.Tool, clip(oneLine(g.Error), 50)))
		}
		return out
	})
	return out
}

func (s *shell) completeLetters(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return s.lettersIn("all")(c, args, begun)
}

// lettersIn offers the letters in a state, or in several: those that a command takes.
func (s *shell) lettersIn(states string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return s.live(func(ctx context.Context) []string {
			p, err := ask[deadletter.Page](ctx, s, control.VerbLetterList, deadletter.Filter{State: states, Limit: 50})
			if err != nil {
				return nil
			}
			var out []string
			for _, l := range p.Letters {
				out = append(out, fmt.Sprintf("%s\t%s %s", l.ID, l.Tool, l.Reason))
			}
			return out
		})
	}
}

// none is for commands that take flags only.
func none(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(c.CommandPath()+" takes no argument "+quoted(args[0]), c.CommandPath()+" --help")
	}
	return nil
}

// exactly and between count arguments and say in words what is missing.
func exactly(n int, what string) cobra.PositionalArgs { return between(n, n, what) }

func between(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage("name "+what, c.UseLine())
		case len(args) > most:
			return usage(fmt.Sprintf("too many arguments: %s", quoted(args[most])), c.UseLine())
		}
		return nil
	}
}

// required marks a flag as one that must be given, for cobra and for the reader.
func required(c *cobra.Command, flag string) {
	if err := c.MarkFlagRequired(flag); err != nil {
		panic("cli: " + err.Error()) // the flag was not declared
	}
	c.Flags().Lookup(flag).Usage += " (required)"
}

// acceptYes takes --yes where nothing is asked, so that scripts may always say it.
func acceptYes(c *cobra.Command) {
	c.Flags().BoolP("yes", "y", false, "accepted, as everywhere; this command asks nothing")
}
