package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/replays"
	"tollgate/schemas"
)

// replay is one replay command: the scope, who pays, and how fast.
type replay struct {
	*shell
	filter      letterFilter
	query       replays.Query // but for the filter
	grant, rate string
	stopAbove   string
	dryRun, yes bool
	detach      bool
	wait        time.Duration
}

func (s *shell) replayCommand() *cobra.Command {
	r := &replay{shell: s}
	c := &cobra.Command{Use: "replay [ID... | -]", Short: "Run dead letters again, with their key and at their run's expense",
		Long: "Replay opens the next generation of a call: the same idempotency key, the same bytes, the original\n" +
			"window of time from now. It pays like any attempt: from the same run, or with a grant, or from\n" +
			"another run. A letter that was replayed is not replayed again.\n\n" +
			"Several letters, named by ID or taken by a filter, are a bulk replay: the set is frozen when it is\n" +
			"made, the dispatcher carries it out at its rate, and it goes on when this command ends. With\n" +
			"--canary N, N letters go first, and the others only when not too many of these died again; later it\n" +
			"stops by itself when too many do. See tollgate replays.\n\n" +
			"Letters with an unknown outcome are left out unless --include-unknown says that you know better.",
		Example: "  tollgate dlq replay 7qx4t9kd\n  tollgate dlq replay --group g-1c04d --dry-run\n  tollgate dlq replay --tool crm.upsert --since 2h --rate 50/s --canary 20 --why 'INC-412: CRM is back'",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: s.lettersIn(string(schemas.LetterActive)),
		RunE: func(c *cobra.Command, args []string) error { return r.run(c.Context(), args) }}
	r.filter.flags(c)
	r.flags(c)
	return c
}

func (r *replay) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&r.filter.all, "all", false, "every active letter: needed when no filter is given")
	f.IntVar(&r.filter.Limit, "limit", 0, "most letters to replay; the oldest first (default no limit)")
	f.BoolVarP(&r.dryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	f.StringVar(&r.query.Name, "name", "", "name of the bulk replay (default the next of r-1, r-2, …)")
	f.StringVar(&r.rate, "rate", "", "most replays a second, such as 5/s (default 10/s above 100 letters)")
	f.IntVar(&r.query.InFlight, "in-flight", 0, fmt.Sprintf("most replayed letters without an outcome (default %d)", replays.DefaultInFlight))
	f.IntVar(&r.query.Canary, "canary", 0, "replay so many first, and go on when not too many of them died again")
	f.StringVar(&r.stopAbove, "stop-above", "", "stop when a greater share of the outcomes died again (default 10%; 100% never stops)")
	f.StringVar(&r.grant, "grant", "", "raise the run's limits as far as needed: attempts=2,side_effects=1,elapsed=10m")
	f.StringVar(&r.query.NewRun, "new-run", "", "let this run pay instead")
	f.DurationVar(&r.query.Window, "window", 0, "time it may take from now (default the call's original window)")
	f.BoolVar(&r.query.IncludeUnknown, "include-unknown", false, "also those whose effect may already have happened")
	f.StringVar(&r.query.Why, "why", "", "why, for the audit")
	f.BoolVar(&r.detach, "detach", false, "do not follow a bulk replay; tollgate replays watch does")
	f.DurationVar(&r.wait, "wait", 0, "wait for the new outcomes, 10m at most unless said otherwise (default: of a bulk replay all)")
	f.Lookup("wait").NoOptDefVal = "10m" // longestWait
	f.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	c.MarkFlagsMutuallyExclusive("detach", "wait")
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
	if r.query.IDs, err = r.whole(ctx, ids); err != nil {
		return err
	}
	return r.many(ctx)
}

// read checks the flags together.
func (r *replay) read(args []string) error {
	if err := r.filter.read(r.shell); err != nil {
		return err
	}
	if err := waitApart(args, r.wait); err != nil {
		return err
	}
	if err := r.filter.names(args, "replay"); err != nil {
		return err
	}
	r.query.Filter = r.filter.Filter
	switch {
	case r.query.NewRun != "" && !schemas.ValidRun(r.query.NewRun):
		return usage("--new-run "+quoted(r.query.NewRun)+" is not a run path", "up to 8 segments of letters, digits, _ : - joined by slashes")
	case r.query.Window < 0 || r.wait < 0:
		return usage("--window and --wait must not be negative", "--window 5m")
	case r.query.InFlight < 0 || r.query.Canary < 0:
		return usage("--in-flight and --canary must not be negative", "--canary 20")
	case r.query.Name != "" && !dedupe.ValidReplayName(r.query.Name):
		return usage("--name "+quoted(r.query.Name)+" is not a name", "up to 64 letters, digits, - and _")
	}
	if r.rate != "" {
		rate, err := parseRate(r.rate)
		if err != nil {
			return err
		}
		r.query.Rate = rate
	}
	if r.stopAbove != "" {
		share, err := parseShare(r.stopAbove)
		if err != nil {
			return err
		}
		r.query.StopAbove = &share
	}
	grant, err := parseGrant(r.grant)
	r.query.Grant = grant
	return err
}

// longestWait is what --wait means without a time.
const longestWait = 10 * time.Minute

// waitApart refuses --wait 20s: the time of --wait may be left out, so that the 20s
// would be taken for an ID.
func waitApart(args []string, wait time.Duration) error {
	if wait != longestWait {
		return nil
	}
	for _, arg := range args {
		if _, err := time.ParseDuration(arg); err == nil {
			return usage(quoted(arg)+" is no dead letter's ID", "write the time in one word with the flag: --wait="+arg)
		}
	}
	return nil
}

// parseShare reads 10% or 0.1.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		n /= 100
	}
	if err != nil || !(n >= 0 && n <= 1) { // not a number is neither
		return 0, usage("--stop-above "+quoted(text)+" is not a share", "--stop-above 10%")
	}
	return n, nil
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
	uncertain := l.Reason == schemas.ReasonUnknownOutcome && r.query.IncludeUnknown
	if err := r.confirm(ctx, fmt.Sprintf("Replay %s of %s (%s)", l.ID, l.Tool, l.Reason), 1, uncertain, r.yes); err != nil {
		return err
	}
	if _, err := ask[control.Done](ctx, r.shell, control.VerbReplay, control.ReplayQuery{ID: l.ID, ReplayOptions: r.query.ReplayOptions}); err != nil {
		return err
	}
	return r.finish(ctx, &bulkReport{Action: "replay", Matched: 1, Done: []string{l.ID}})
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
