package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

func (s *shell) resolveCommand() *cobra.Command {
	var happened, not, undetermined bool
	var result, why string
	c := &cobra.Command{Use: "resolve ID", Short: "Say what became of an uncertain effect", Args: exactly(1, "a dead letter's ID"), ValidArgsFunction: s.completeLetters,
		Long: "Ask the tool's provider what became of the downstream key (tollgate calls show names it), then say so:\n" +
			"  --happened        the call succeeded; --result is stored and published as its result\n" +
			"  --did-not-happen  nothing was done: the letter may be replayed\n" +
			"  --undetermined    nobody can tell; noted, nothing changes",
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

func (s *shell) discardCommand() *cobra.Command {
	return s.putAside("discard", "discarded", "Put dead letters aside; they can be restored", control.VerbDiscard, schemas.LetterActive)
}

func (s *shell) restoreCommand() *cobra.Command {
	return s.putAside("restore", "restored", "Make discarded letters active again", control.VerbRestore, schemas.LetterDiscarded)
}

// putAside is discard and restore: the same scope, the same confirmation.
func (s *shell) putAside(name, done, short, verb string, from schemas.LetterState) *cobra.Command {
	var f letterFilter
	var why string
	var yes, dryRun bool
	c := &cobra.Command{Use: name + " [ID... | -]", Short: short, Args: cobra.ArbitraryArgs, ValidArgsFunction: s.completeLetters,
		Example: "  tollgate dlq " + name + " 7qx4t9kd --why 'order was cancelled'\n  tollgate dlq " + name + " --group 1c04d --why INC-412",
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.read(s); err != nil {
				return err
			}
			switch {
			case len(args) > 0 && (!f.empty() || f.all):
				return usage("IDs and a filter at the same time", "one of the two")
			case len(args) == 0 && f.empty() && !f.all:
				return usage("this would "+name+" every dead letter", "name IDs or a filter, or say --all")
			case len(args) == 0 && why == "":
				return usage("a bulk "+name+" needs a reason for the audit", "--why 'what you know'")
			}
			ids, err := s.scope(c.Context(), f, args, from)
			if err != nil {
				return err
			}
			if dryRun {
				return s.printScope(name, ids)
			}
			what := fmt.Sprintf("%s %s", string(name[0]-'a'+'A')+name[1:], count(len(ids), "dead letter"))
			if err := s.confirm(what, len(ids), false, yes); err != nil {
				return err
			}
			return s.each(c.Context(), name, done, ids, func(id string) error {
				_, err := ask[control.Done](c.Context(), s, verb, control.LetterQuery{ID: id, Why: why})
				return err
			})
		}}
	f.flags(c)
	c.Flags().BoolVar(&f.all, "all", false, "all of them: needed when no filter is given")
	c.Flags().StringVar(&why, "why", "", "why, for the audit")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	return c
}

// scope freezes what a bulk operation acts on, the oldest first.
func (s *shell) scope(ctx context.Context, f letterFilter, args []string, from schemas.LetterState) ([]string, error) {
	ids, err := s.ids(args)
	if err != nil || len(ids) > 0 {
		return ids, err
	}
	f.all = true
	if f.State == "" {
		f.State = string(from)
	}
	p, err := s.letters(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Backward(p.Letters) {
		ids = append(ids, l.ID)
	}
	if len(ids) == 0 {
		return nil, &fault{code: exitNotFound, what: "no dead letter matches", try: "tollgate dlq groups --state all"}
	}
	return ids, nil
}

func (s *shell) printScope(action string, ids []string) error {
	if s.json {
		return s.printJSON("Plan", bulkReport{Action: action, DryRun: true, Matched: len(ids), Done: ids})
	}
	s.line("DRY RUN: would %s %s", action, count(len(ids), "dead letter"))
	return nil
}

func (s *shell) each(ctx context.Context, action, done string, ids []string, do func(id string) error) error {
	b := newBulk(s, done, 0)
	b.run(ctx, ids, do)
	if b.fatal != nil {
		return b.fatal
	}
	if len(ids) == 1 && len(b.failed) == 1 {
		return b.failed[ids[0]]
	}
	report := &bulkReport{Action: action, Matched: len(ids), Done: slices.Concat([]string{}, b.done)}
	report.fail(b)
	if s.json {
		if err := s.printJSON("Report", report); err != nil {
			return err
		}
	} else {
		s.line("%s %d of %d", done, len(b.done), len(ids))
		for _, id := range ids {
			if why := report.Failed[id]; why != "" {
				s.line("  not %s: %s", id, why)
			}
		}
	}
	if len(b.failed) > 0 {
		return told(exitPartial)
	}
	return nil
}
