package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// bulkReport is what a bulk operation came to.
type bulkReport struct {
	Action   string            `json:"action"`
	DryRun   bool              `json:"dry_run,omitempty"`
	Matched  int               `json:"matched"`
	Done     []string          `json:"done"`              // IDs; with dry_run those that would be
	Skipped  map[string]int    `json:"skipped,omitempty"` // by why, before anything was done
	Failed   map[string]string `json:"failed,omitempty"`  // by ID
	Outcomes map[string]string `json:"outcomes,omitempty"`
	Pending  int               `json:"pending,omitempty"` // outcomes that had not come when the wait ended
}

// defaultRate is the pace of a large replay that names none: downstream has just
// been in trouble.
const defaultRate = 10

func (r *replay) pace(n int) (float64, error) {
	switch {
	case r.rate != "":
		return parseRate(r.rate)
	case n > typedFrom:
		return defaultRate, nil
	}
	return 0, nil
}

func (r *replay) printPlan(plan *bulkReport) error {
	pace, err := r.pace(len(plan.Done))
	if err != nil {
		return err
	}
	plan.DryRun = true
	if r.json {
		plan.Done = some(plan.Done)
		return r.printJSON("ReplayPlan", plan)
	}
	r.line("DRY RUN: nothing was replayed")
	r.line("  matched       %d (frozen now; later letters are not touched)", plan.Matched)
	r.line("  would replay  %d, oldest first, with their own keys", len(plan.Done))
	r.printSkipped(plan)
	if pace > 0 {
		r.line("  pace          %g/s, about %s", pace, brief(time.Duration(float64(len(plan.Done))/pace*float64(time.Second))))
	}
	r.say("run it: the same without --dry-run")
	return nil
}

func (r *replay) printSkipped(plan *bulkReport) {
	reasons := slices.SortedFunc(maps.Keys(plan.Skipped), func(a, b string) int {
		return cmp.Or(plan.Skipped[b]-plan.Skipped[a], cmp.Compare(a, b))
	})
	for _, why := range reasons {
		r.line("  skip          %d: %s", plan.Skipped[why], why)
	}
}

// many replays what the plan has found, after a confirmation.
func (r *replay) many(ctx context.Context, plan *bulkReport) error {
	if len(plan.Done) == 0 {
		if !r.json {
			r.printSkipped(plan)
		}
		return &fault{code: exitNotFound, what: fmt.Sprintf("none of %s can be replayed", count(plan.Matched, "dead letter")),
			why: strings.Join(slices.Sorted(maps.Keys(plan.Skipped)), "; "), try: "tollgate dlq show ID"}
	}
	pace, err := r.pace(len(plan.Done))
	if err != nil {
		return err
	}
	what := "Replay " + count(len(plan.Done), "dead letter")
	if pace > 0 {
		what += fmt.Sprintf(" at %g/s", pace)
	}
	if err := r.confirm(what, len(plan.Done), r.options.IncludeUnknown, r.yes); err != nil {
		return err
	}
	b := newBulk(r.shell, "replayed", pace)
	b.run(ctx, plan.Done, func(id string) error { return r.send(ctx, id, false) })
	plan.Done = b.done
	plan.fail(b)
	if b.fatal != nil {
		r.say("%d replayed before this; the same command does the rest", len(b.done))
		return b.fatal
	}
	return r.finish(ctx, plan)
}

func (report *bulkReport) fail(b *bulk) {
	for id, err := range b.failed {
		if report.Failed == nil {
			report.Failed = map[string]string{}
		}
		report.Failed[id] = reasonOf(id, err)
	}
}

// finish waits if that was asked for, reports, and finds the exit code.
func (r *replay) finish(ctx context.Context, report *bulkReport) error {
	if r.wait > 0 {
		if err := r.await(ctx, report); err != nil {
			return err
		}
	}
	again := 0
	for _, status := range report.Outcomes {
		if status != string(schemas.Succeeded) {
			again++
		}
	}
	switch {
	case r.json:
		report.Done = some(report.Done)
		if err := r.printJSON("ReplayReport", report); err != nil {
			return err
		}
	default:
		r.printReplayed(report, again)
	}
	switch {
	case report.Pending > 0:
		return told(exitUnreachable)
	case again > 0 || len(report.Failed) > 0:
		return told(exitPartial)
	}
	return nil
}

func (r *replay) printReplayed(report *bulkReport, again int) {
	if len(report.Done) == 1 && len(report.Failed) == 0 {
		r.line("replayed %s", report.Done[0])
	} else {
		r.line("replayed %d of %d", len(report.Done), report.Matched)
	}
	for _, id := range slices.Sorted(maps.Keys(report.Failed)) {
		r.line("  not %s: %s", id, report.Failed[id])
	}
	r.printSkipped(report)
	for _, id := range report.Done {
		if status := report.Outcomes[id]; status != "" && len(report.Done) <= 20 {
			r.line("  %s  %s", id, status)
		}
	}
	switch {
	case r.wait > 0:
		r.line("%d succeeded, %d did not, %d still running", len(report.Outcomes)-again, again, report.Pending)
		if again > 0 {
			r.next("tollgate dlq ls")
		}
	case len(report.Done) > 0:
		call, generation, err := dedupe.ParseLetterID(report.Done[0])
		if err == nil {
			r.next(fmt.Sprintf("tollgate result %s --generation %d --wait 30s", call, generation+1), "tollgate calls show "+r.short(call))
		}
	}
}

// await asks for the calls until each has an outcome of the new generation.
func (r *replay) await(ctx context.Context, report *bulkReport) error {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	report.Outcomes = map[string]string{}
	p := r.progress("settled", len(report.Done))
	defer p.end()
	pause := 100 * time.Millisecond
	for open := slices.Clone(report.Done); len(open) > 0; {
		var still []string
		for _, id := range open {
			status, err := r.settled(ctx, id)
			switch {
			case err != nil && ctx.Err() == nil:
				return err
			case status == "":
				still = append(still, id)
			default:
				report.Outcomes[id] = status
				p.add(status == string(schemas.Succeeded))
			}
		}
		open = still
		select {
		case <-ctx.Done():
			report.Pending = len(open)
			if context.Cause(ctx) == errInterrupted {
				return errInterrupted
			}
			return nil
		case <-time.After(pause):
			pause = min(2*pause, 2*time.Second)
		}
	}
	return nil
}

// settled is the status of the generation after a letter's, or "" while it has none.
func (r *replay) settled(ctx context.Context, letter string) (string, error) {
	call, generation, err := dedupe.ParseLetterID(letter)
	if err != nil {
		return "", err
	}
	d, err := ask[control.CallDetail](ctx, r.shell, control.VerbCallShow, control.IDQuery{ID: call})
	if err != nil || d.Outcome == nil || d.Outcome.Generation <= generation {
		return "", err
	}
	return string(d.Outcome.Status), nil
}
