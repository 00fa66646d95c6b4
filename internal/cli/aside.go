package cli

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/schemas"
)

func (s *shell) discardCommand() *cobra.Command {
	return (&eachLetter{shell: s, name: "discard", done: "discarded", from: string(schemas.LetterActive)}).
		aside(control.VerbDiscard, "Put dead letters aside; they can be restored")
}

func (s *shell) restoreCommand() *cobra.Command {
	return (&eachLetter{shell: s, name: "restore", done: "restored", from: string(schemas.LetterDiscarded)}).
		aside(control.VerbRestore, "Make discarded letters active again")
}

// eachLetter is an operation on letters that are named by ID or taken by a filter:
// the set is frozen, counted, confirmed, and gone through one by one.
type eachLetter struct {
	*shell
	name, done  string
	from        string // the state that is meant when none is given
	filter      letterFilter
	why         string
	yes, dryRun bool
	do          func(ctx context.Context, id string) error
	sure        func(ctx context.Context, what string, n int) error // asks; nil: the common question
}

// aside makes discard and restore of it.
func (e *eachLetter) aside(verb, short string) *cobra.Command {
	e.do = func(ctx context.Context, id string) error {
		_, err := ask[control.Done](ctx, e.shell, verb, control.LetterQuery{ID: id, Why: e.why})
		return err
	}
	c := e.command(short)
	c.Flags().BoolVarP(&e.yes, "yes", "y", false, "do not ask")
	return c
}

func (e *eachLetter) command(short string) *cobra.Command {
	c := &cobra.Command{Use: e.name + " [ID... | -]", Short: short, Args: cobra.ArbitraryArgs, ValidArgsFunction: e.lettersIn(e.from),
		Example: "  tollgate dlq " + e.name + " 7qx4t9kd --why 'order was cancelled'\n  tollgate dlq " + e.name + " --group g-1c04d --why INC-412",
		RunE:    func(c *cobra.Command, args []string) error { return e.run(c.Context(), args) }}
	e.filter.flags(c)
	f := c.Flags()
	f.Lookup("state").Usage = statesUsage(e.from)
	f.BoolVar(&e.filter.all, "all", false, "all of them: needed when no filter is given")
	f.StringVar(&e.why, "why", "", "why, for the audit")
	f.BoolVarP(&e.dryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	return c
}

func (e *eachLetter) run(ctx context.Context, args []string) error {
	ids, err := e.scope(ctx, args)
	if err != nil {
		return err
	}
	if e.dryRun {
		return e.printScope(ids)
	}
	what := e.name + " " + count(len(ids), "dead letter")
	if e.sure != nil {
		err = e.sure(ctx, what, len(ids))
	} else {
		err = e.confirm(ctx, what, len(ids), false, e.yes)
	}
	if err != nil {
		return err
	}
	return e.each(ctx, ids)
}

// scope freezes what is acted on, the oldest first.
func (e *eachLetter) scope(ctx context.Context, args []string) ([]string, error) {
	if err := e.filter.read(e.shell); err != nil {
		return nil, err
	}
	if err := e.filter.names(args, e.name); err != nil {
		return nil, err
	}
	if len(args) == 0 && e.why == "" {
		return nil, usage("a bulk "+e.name+" needs a reason for the audit", "--why 'what you know'")
	}
	if ids, err := e.ids(args); err != nil || len(ids) > 0 {
		return ids, err
	}
	f := e.filter.Filter
	f.State = cmpOr(f.State, e.from)
	return e.frozen(ctx, f)
}

func (e *eachLetter) printScope(ids []string) error {
	if e.json {
		return e.printJSON("Plan", bulkReport{Action: e.name, DryRun: true, Matched: len(ids), Done: ids})
	}
	e.line("DRY RUN: would %s %s", e.name, count(len(ids), "dead letter"))
	return nil
}

func (e *eachLetter) each(ctx context.Context, ids []string) error {
	b := newBulk(e.shell, e.done, 0)
	b.run(ctx, ids, func(id string) error { return e.do(ctx, id) })
	if b.fatal != nil {
		e.say("%s %d before this; the same command does the rest", e.done, len(b.done))
		return b.fatal
	}
	if len(ids) == 1 && len(b.failed) == 1 {
		return b.failed[ids[0]]
	}
	return e.report(ids, b)
}

// report says what was done, and the exit code whether that is all of it.
func (e *eachLetter) report(ids []string, b *bulk) error {
	report := &bulkReport{Action: e.name, Matched: len(ids), Done: some(b.done)}
	report.fail(b)
	if e.json {
		if err := e.printJSON("Report", report); err != nil {
			return err
		}
	} else {
		e.line("%s %d of %d", e.done, len(b.done), len(ids))
		for _, id := range slices.Sorted(maps.Keys(report.Failed)) {
			e.line("  not %s: %s", id, report.Failed[id])
		}
	}
	if len(b.failed) > 0 {
		return told(exitPartial)
	}
	return nil
}
