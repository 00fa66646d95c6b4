package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/replays"
)

// replayPlan is what a dry run answers.
type replayPlan struct {
	Action string `json:"action"`
	DryRun bool   `json:"dry_run"`
	replays.Plan
}

// setTime is how long a question about every letter may take at least.
const setTime = time.Minute

// ofAll asks something that looks at every letter.
func ofAll[T any](ctx context.Context, s *shell, verb string, query any) (T, error) {
	was := s.timeout
	defer func() { s.timeout = was }()
	s.timeout = max(was, setTime)
	return ask[T](ctx, s, verb, query)
}

// many makes a bulk replay of the letters that are meant, after a confirmation of what
// it would do, and follows it.
func (r *replay) many(ctx context.Context) error {
	plan, err := ofAll[replays.Plan](ctx, r.shell, control.VerbReplaysPlan, r.query)
	if err != nil {
		return err
	}
	if plan.Matched == 0 {
		return &fault{code: exitNotFound, what: "no dead letter matches", try: "tollgate dlq groups"}
	}
	if r.dryRun {
		return r.printPlan(&plan)
	}
	if plan.Would == 0 {
		if !r.json {
			r.printSkipped(plan.Skipped)
		}
		return &fault{code: exitNotFound, what: fmt.Sprintf("none of %s can be replayed", count(plan.Matched, "dead letter")),
			why: strings.Join(slices.Sorted(maps.Keys(plan.Skipped)), "; "), try: "tollgate dlq show ID"}
	}
	what := fmt.Sprintf("Replay %s at %g/s", count(plan.Would, "dead letter"), plan.Rate)
	if plan.Uncertain > 0 {
		what += fmt.Sprintf(", of which %d may have had their effect already", plan.Uncertain)
	}
	if err := r.confirm(ctx, what, plan.Would, plan.Uncertain > 0, r.yes); err != nil {
		return err
	}
	// Exactly the set that was confirmed: nothing that has died since.
	r.query.Filter.Before, r.query.AtMost = plan.Before, plan.Would
	made, err := ofAll[dedupe.Replay](ctx, r.shell, control.VerbReplaysCreate, r.query)
	if err != nil {
		return err
	}
	return r.made(ctx, &made)
}

func (r *replay) printPlan(plan *replays.Plan) error {
	if r.json {
		plan.IDs = some(plan.IDs)
		return r.printJSON("ReplayPlan", replayPlan{Action: "replay", DryRun: true, Plan: *plan})
	}
	r.line("DRY RUN: nothing was replayed")
	r.line("  matched       %d (frozen when it is made; later letters are not touched)", plan.Matched)
	r.line("  would replay  %d, oldest first, with their own keys", plan.Would)
	r.printSkipped(plan.Skipped)
	if plan.Uncertain > 0 {
		r.line("  uncertain     %d: their effect may have happened already", plan.Uncertain)
	}
	r.line("  pace          %g/s, about %s; at most %d without an outcome at once", plan.Rate, brief(time.Duration(float64(plan.Would)/plan.Rate*float64(time.Second))), plan.InFlight)
	switch {
	case plan.Canary == 0 || plan.Would == 0:
	case plan.Canary >= plan.Would:
		r.line("  canary        all %d of them: there are no others for it to hold back", plan.Would)
	default:
		r.line("  canary        %d first; the other %d when not more than %g %% of these died again", plan.Canary, plan.Would-plan.Canary, 100*plan.StopAbove)
	}
	if words := grantWords(r.query.Grant); words != "" && r.query.NewRun == "" {
		r.line("  grant         %s to the run of each letter that its limits would refuse", words)
	}
	r.line("  stops         when more than %g %% of the outcomes died again", 100*plan.StopAbove)
	if plan.Would > 0 {
		r.say("run it: the same without --dry-run")
	}
	return nil
}

// grantWords says what a grant adds, or nothing.
func grantWords(g budget.Grant) string {
	var words []string
	if g.Attempts > 0 {
		words = append(words, "+"+count(g.Attempts, "attempt"))
	}
	if g.SideEffects > 0 {
		words = append(words, "+"+count(g.SideEffects, "side effect"))
	}
	if g.Elapsed > 0 {
		words = append(words, "+"+g.Elapsed.String()+" of time")
	}
	return strings.Join(words, ", ")
}

func (s *shell) printSkipped(skipped map[string]int) {
	reasons := slices.SortedFunc(maps.Keys(skipped), func(a, b string) int {
		return cmp.Or(skipped[b]-skipped[a], cmp.Compare(a, b))
	})
	for _, why := range reasons {
		s.line("  skip          %d: %s", skipped[why], why)
	}
}

// made tells of a bulk replay that exists now, and follows it unless told not to.
func (r *replay) made(ctx context.Context, b *dedupe.Replay) error {
	if r.detach {
		if r.json {
			return r.printJSON("Replay", b)
		}
		r.line("replay %s: %s at %g/s", b.Name, count(b.Left, "dead letter"), b.Rate)
		r.next("tollgate replays watch "+b.Name, "tollgate replays cancel "+b.Name)
		return nil
	}
	r.say("replay %s: %s at %g/s; Ctrl-C leaves it running, tollgate replays cancel %s ends it", b.Name, count(b.Left, "dead letter"), b.Rate, b.Name)
	if r.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.wait, errWaited)
		defer cancel()
	}
	after, err := r.follow(ctx, b)
	if err != nil && !errors.Is(err, errWaited) {
		return err
	}
	return r.report(context.WithoutCancel(ctx), after)
}

// report says what a bulk replay has come to, and finds the exit code.
func (r *replay) report(ctx context.Context, b *dedupe.Replay) error {
	if !r.json {
		r.printReplayed(b)
		return replayExit(b)
	}
	report := &bulkReport{Action: "replay", Matched: b.Matched, Done: []string{}, Skipped: b.Skipped, Outcomes: map[string]string{}, Pending: b.Tally.Open() + b.Left, Replay: b}
	err := r.replayItems(ctx, b.Name, func(i dedupe.ReplayItem) {
		switch i.State {
		case dedupe.ItemReplayed:
			report.Done = append(report.Done, i.Letter)
			if i.Status != "" {
				report.Outcomes[i.Letter] = string(i.Status)
			}
		case dedupe.ItemSkipped:
			if report.Failed == nil {
				report.Failed = map[string]string{}
			}
			report.Failed[i.Letter] = i.Why
		}
	})
	if err == nil {
		err = r.printJSON("ReplayReport", report)
	}
	return errors.Join(err, replayExit(b))
}

// replayItems gives every letter of a bulk replay, page by page.
func (s *shell) replayItems(ctx context.Context, name string, do func(dedupe.ReplayItem)) error {
	for from := 0; ; {
		page, err := ask[replays.Items](ctx, s, control.VerbReplayItems, control.ReplayName{Name: name, From: from})
		if err != nil {
			return err
		}
		for _, i := range page.Items {
			do(i)
		}
		if from = page.Next; from == 0 {
			return nil
		}
	}
}

// replayExit is the exit code of whoever has followed a bulk replay.
func replayExit(b *dedupe.Replay) error {
	switch {
	case b.State == dedupe.ReplayStopped || b.State == dedupe.ReplayCancelled:
		return told(exitPartial)
	case b.Left > 0 || b.Tally.Open() > 0:
		return told(exitUnreachable)
	case b.Tally.Succeeded < b.Tally.Replayed || b.Tally.Replayed == 0:
		return told(exitPartial)
	}
	return nil
}
