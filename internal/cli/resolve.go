package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/deadletter"
)

func (s *shell) resolveCommand() *cobra.Command {
	var happened, not, undetermined bool
	var result, why string
	c := &cobra.Command{Use: "resolve ID {--happened | --did-not-happen | --undetermined}", Short: "Say what became of an uncertain effect", Args: exactly(1, "a dead letter's ID"), ValidArgsFunction: s.completeLetters,
		Long: "Ask the tool's provider what became of the downstream key (tollgate calls show names it), then say so:\n" +
			"  --happened        the call succeeded; --result is stored and published as its result\n" +
			"  --did-not-happen  nothing was done: the letter may be replayed\n" +
			"  --undetermined    nobody can tell: noted, and what was said before is taken back",
		Example: "  tollgate dlq resolve 7qx4t9kd --happened --result '{\"id\":\"ch_1\"}' --why 'seen in the provider console'",
		RunE: func(c *cobra.Command, args []string) error {
			o := deadletter.ResolveOptions{Why: why}
			switch {
			case happened:
				o.Verdict = deadletter.Happened
			case not:
				o.Verdict = deadletter.DidNotHappen
			default:
				o.Verdict = deadletter.Undetermined
			}
			if result != "" {
				if !happened || !json.Valid([]byte(result)) {
					return usage("--result is the JSON result of what --happened", `--happened --result '{"id":"ch_1"}'`)
				}
				o.Result = json.RawMessage(result)
			}
			return s.resolve(c.Context(), args[0], o)
		}}
	f := c.Flags()
	f.BoolVar(&happened, "happened", false, "the effect happened")
	f.BoolVar(&not, "did-not-happen", false, "it did not")
	f.BoolVar(&undetermined, "undetermined", false, "nobody can tell")
	f.StringVar(&result, "result", "", "JSON result of what happened")
	f.StringVar(&why, "why", "", "how you know, for the audit")
	acceptYes(c)
	c.MarkFlagsOneRequired("happened", "did-not-happen", "undetermined")
	c.MarkFlagsMutuallyExclusive("happened", "did-not-happen", "undetermined")
	return c
}

func (s *shell) resolve(ctx context.Context, id string, o deadletter.ResolveOptions) error {
	done, err := ask[control.Done](ctx, s, control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: o})
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON("Done", done)
	}
	s.line("resolved %s: %s", done.ID, o.Verdict)
	if o.Verdict == deadletter.DidNotHappen {
		s.next("tollgate dlq replay " + s.short(done.ID))
	}
	return nil
}
