package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// replay is one replay command: the scope, who pays, and how fast.
type replay struct {
	*shell
	filter      letterFilter
	options     deadletter.ReplayOptions
	grant, rate string
	dryRun, yes bool
	wait        time.Duration
}

func (s *shell) replayCommand() *cobra.Command {
	r := &replay{shell: s}
	c := &cobra.Command{Use: "replay [ID... | -]", Short: "Run dead letters again, with their key and at their run's expense",
		Long: "Replay opens the next generation of a call: the same idempotency key, the same bytes, the original\n" +
			"window of time from now. It pays like any attempt: from the same run, or with a grant, or from\n" +
			"another run. Letters are named by ID or taken by a filter; the set is frozen before the first is\n" +
			"replayed, and replaying a letter twice is not possible.\n\n" +
			"Letters with an unknown outcome are left out unless --include-unknown says that you know better.",
		Example: "  tollgate dlq replay 7qx4t9kd\n  tollgate dlq replay --group g-1c04d --dry-run\n  tollgate dlq replay --tool crm.upsert --since 2h --rate 5/s --why 'CRM is back' --wait",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: s.completeLetters,
		RunE: func(c *cobra.Command, args []string) error { return r.run(c.Context(), args) }}
	r.filter.flags(c)
	f := c.Flags()
	f.BoolVar(&r.filter.all, "all", false, "every active letter: needed when no filter is given")
	f.IntVar(&r.filter.Limit, "limit", 0, "most letters to replay; the oldest first (default no limit)")
	f.BoolVarP(&r.dryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	f.StringVar(&r.rate, "rate", "", "most replays a second, such as 5/s (default 10/s above 100 letters)")
	f.StringVar(&r.grant, "grant", "", "raise the run's limits as far as needed: attempts=2,side_effects=1,elapsed=10m")
	f.StringVar(&r.options.NewRun, "new-run", "", "let this run pay instead")
	f.DurationVar(&r.options.Window, "window", 0, "time it may take from now (default the call's original window)")
	f.BoolVar(&r.options.IncludeUnknown, "include-unknown", false, "also those whose effect may already have happened")
	f.StringVar(&r.options.Why, "why", "", "why, for the audit")
	f.DurationVar(&r.wait, "wait", 0, "wait for the new outcomes, 10m at most unless said otherwise")
	f.Lookup("wait").NoOptDefVal = "10m"
	f.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	return c
}

func (r *replay) run(ctx context.Context, args []string) error {
	if err := r.read(args); err != nil {
		return err
	}
	ids, err := r.ids(args)
	if err != nil {
		return err
	}
	if len(ids) == 1 && !r.dryRun {
		return r.one(ctx, ids[0])
	}
	if ids, err = r.whole(ctx, ids); err != nil {
		return err
	}
	plan, err := r.plan(ctx, ids)
	if err != nil {
		return err
	}
	if r.dryRun {
		return r.printPlan(plan)
	}
	return r.many(ctx, plan)
}

// read checks the flags together.
func (r *replay) read(args []string) error {
	if err := r.filter.read(r.shell); err != nil {
		return err
	}
	if err := r.filter.names(args, "replay"); err != nil {
		return err
	}
	switch {
	case r.options.NewRun != "" && !schemas.ValidRun(r.options.NewRun):
		return usage("--new-run "+quoted(r.options.NewRun)+" is not a run path", "up to 8 segments of letters, digits, _ : - joined by slashes")
	case r.options.Window < 0 || r.wait < 0:
		return usage("--window and --wait must not be negative", "--window 5m")
	}
	grant, err := parseGrant(r.grant)
	r.options.Grant = grant
	return err
}

// parseGrant reads attempts=2,side_effects=1,elapsed=10m.
func parseGrant(text string) (budget.Grant, error) {
	var g budget.Grant
	for part := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(value)
		switch name {
		case "attempts":
			g.Attempts = n
		case "side_effects":
			g.SideEffects = n
		case "elapsed":
			var d time.Duration
			d, err = time.ParseDuration(value)
			g.Elapsed, n = d, int(min(d, 1))
		default:
			return g, usage("--grant: there is no "+quoted(name), "attempts=2,side_effects=1,elapsed=10m")
		}
		if err != nil || n <= 0 {
			return g, usage("--grant: "+quoted(part)+" grants nothing", "attempts=2,side_effects=1,elapsed=10m")
		}
	}
	return g, nil
}

// one replays a single letter: it is shown, confirmed and sent.
func (r *replay) one(ctx context.Context, id string) error {
	l, err := ask[schemas.Letter](ctx, r.shell, control.VerbLetterShow, control.IDQuery{ID: id})
	if err != nil {
		return err
	}
	uncertain := l.Reason == schemas.ReasonUnknownOutcome && r.options.IncludeUnknown
	if err := r.confirm(fmt.Sprintf("Replay %s of %s (%s)", l.ID, l.Tool, l.Reason), 1, uncertain, r.yes); err != nil {
		return err
	}
	if err := r.send(ctx, l.ID, false); err != nil {
		return err
	}
	report := &bulkReport{Action: "replay", Matched: 1, Done: []string{l.ID}}
	return r.finish(ctx, report)
}

func (r *replay) send(ctx context.Context, id string, dryRun bool) error {
	o := r.options
	o.DryRun = dryRun
	_, err := ask[control.Done](ctx, r.shell, control.VerbReplay, control.ReplayQuery{ID: id, ReplayOptions: o})
	return err
}

// whole completes shortened IDs, and takes each letter once.
func (r *replay) whole(ctx context.Context, ids []string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	for _, id := range ids {
		if call, _, err := dedupe.ParseLetterID(id); err != nil || !dedupe.ValidCallID(call) {
			l, err := ask[schemas.Letter](ctx, r.shell, control.VerbLetterShow, control.IDQuery{ID: id})
			if err != nil {
				return nil, err
			}
			id = l.ID
		}
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out, nil
}

// plan freezes the set and asks of each letter, without doing anything, whether it
// could be replayed now.
func (r *replay) plan(ctx context.Context, ids []string) (*bulkReport, error) {
	report := &bulkReport{Action: "replay", Skipped: map[string]int{}}
	if len(ids) == 0 {
		var err error
		if ids, err = r.frozen(ctx, report); err != nil {
			return nil, err
		}
	}
	report.Matched += len(ids)
	if report.Matched == 0 {
		return nil, &fault{code: exitNotFound, what: "no dead letter matches", try: "tollgate dlq groups"}
	}
	trial := newBulk(r.shell, "checked", 0)
	trial.run(ctx, ids, func(id string) error { return r.send(ctx, id, true) })
	if trial.fatal != nil {
		return nil, trial.fatal
	}
	report.Done = trial.done
	for id, err := range trial.failed {
		report.Skipped[reasonOf(id, err)]++
	}
	return report, nil
}

// frozen resolves the filter to IDs, the oldest first.
func (r *replay) frozen(ctx context.Context, report *bulkReport) ([]string, error) {
	set, err := ask[control.LetterIDs](ctx, r.shell, control.VerbLetterIDs, r.filter.Filter)
	if err != nil {
		return nil, err
	}
	if r.options.IncludeUnknown && r.filter.Reason == "" {
		unknown := r.filter.Filter
		unknown.Reason = schemas.ReasonUnknownOutcome
		more, err := ask[control.LetterIDs](ctx, r.shell, control.VerbLetterIDs, unknown)
		if err != nil {
			return nil, err
		}
		set.IDs = append(set.IDs, more.IDs...)
		maps.DeleteFunc(set.Skipped, func(why string, _ int) bool { return strings.HasPrefix(why, "unknown outcome") })
	}
	for why, n := range set.Skipped {
		report.Skipped[why] += n
		report.Matched += n
	}
	slices.Reverse(set.IDs)
	if n := r.filter.Limit; n > 0 && len(set.IDs) > n {
		set.IDs = set.IDs[:n]
	}
	return set.IDs, nil
}
