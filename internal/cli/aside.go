package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/schemas"
)

func (s *shell) discardCommand() *cobra.Command {
	return (&putAside{shell: s, name: "discard", done: "discarded", verb: control.VerbDiscard, from: schemas.LetterActive}).command("Put dead letters aside; they can be restored")
}

func (s *shell) restoreCommand() *cobra.Command {
	return (&putAside{shell: s, name: "restore", done: "restored", verb: control.VerbRestore, from: schemas.LetterDiscarded}).command("Make discarded letters active again")
}

// putAside is discard and restore: the same scope, the same confirmation.
type putAside struct {
	*shell
	name, done, verb string
	from             schemas.LetterState
	filter           letterFilter
	why              string
	yes, dryRun      bool
}

func (a *putAside) command(short string) *cobra.Command {
	c := &cobra.Command{Use: a.name + " [ID... | -]", Short: short, Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completeLetters,
		Example: "  tollgate dlq " + a.name + " 7qx4t9kd --why 'order was cancelled'\n  tollgate dlq " + a.name + " --group g-1c04d --why INC-412",
		RunE:    func(c *cobra.Command, args []string) error { return a.run(c.Context(), args) }}
	a.filter.flags(c)
	f := c.Flags()
	f.BoolVar(&a.filter.all, "all", false, "all of them: needed when no filter is given")
	f.StringVar(&a.why, "why", "", "why, for the audit")
	f.BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	f.BoolVarP(&a.dryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	return c
}

func (a *putAside) run(ctx context.Context, args []string) error {
	if err := a.filter.read(a.shell); err != nil {
		return err
	}
	if err := a.filter.names(args, a.name); err != nil {
		return err
	}
	if len(args) == 0 && a.why == "" {
		return usage("a bulk "+a.name+" needs a reason for the audit", "--why 'what you know'")
	}
	ids, err := a.scope(ctx, args)
	if err != nil {
		return err
	}
	if a.dryRun {
		return a.printScope(ids)
	}
	if err := a.confirm(a.name+" "+count(len(ids), "dead letter"), len(ids), false, a.yes); err != nil {
		return err
	}
	return a.each(ctx, ids)
}

// scope freezes what a bulk operation acts on, the oldest first.
func (a *putAside) scope(ctx context.Context, args []string) ([]string, error) {
	ids, err := a.ids(args)
	if err != nil || len(ids) > 0 {
		return ids, err
	}
	f := a.filter
	f.all = true
	if f.State == "" {
		f.State = string(a.from)
	}
	p, err := a.letters(ctx, f)
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

func (a *putAside) printScope(ids []string) error {
	if a.json {
		return a.printJSON("Plan", bulkReport{Action: a.name, DryRun: true, Matched: len(ids), Done: ids})
	}
	a.line("DRY RUN: would %s %s", a.name, count(len(ids), "dead letter"))
	return nil
}

func (a *putAside) each(ctx context.Context, ids []string) error {
	b := newBulk(a.shell, a.done, 0)
	b.run(ctx, ids, func(id string) error {
		_, err := ask[control.Done](ctx, a.shell, a.verb, control.LetterQuery{ID: id, Why: a.why})
		return err
	})
	if b.fatal != nil {
		return b.fatal
	}
	if len(ids) == 1 && len(b.failed) == 1 {
		return b.failed[ids[0]]
	}
	report := &bulkReport{Action: a.name, Matched: len(ids), Done: some(b.done)}
	report.fail(b)
	if a.json {
		if err := a.printJSON("Report", report); err != nil {
			return err
		}
	} else {
		a.line("%s %d of %d", a.done, len(b.done), len(ids))
		for _, id := range ids {
			if why := report.Failed[id]; why != "" {
				a.line("  not %s: %s", id, why)
			}
		}
	}
	if len(b.failed) > 0 {
		return told(exitPartial)
	}
	return nil
}
