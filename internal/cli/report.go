package cli

import (
	"context"
	"fmt"
	"time"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// bulkReport is what an operation on letters came to.
type bulkReport struct {
	Action   string            `json:"action"`
	DryRun   bool              `json:"dry_run,omitempty"`
	Matched  int               `json:"matched"`
	Done     []string          `json:"done"`              // IDs; with dry_run those that would be
	Skipped  map[string]int    `json:"skipped,omitempty"` // by why
	Failed   map[string]string `json:"failed,omitempty"`  // by ID, when it was its turn
	Outcomes map[string]string `json:"outcomes,omitempty"`
	Pending  int               `json:"pending,omitempty"` // outcomes that had not come when the wait ended
	Replay   *dedupe.Replay    `json:"replay,omitempty"`  // of a bulk replay
}

func (report *bulkReport) fail(b *bulk) {
	for id, err := range b.failed {
		if report.Failed == nil {
			report.Failed = map[string]string{}
		}
		report.Failed[id] = reasonOf(id, err)
	}
}

// finish waits for the one letter that was replayed, if that was asked for, reports,
// and finds the exit code.
func (r *replay) finish(ctx context.Context, report *bulkReport) error {
	if r.wait > 0 {
		if err := r.await(ctx, report); err != nil {
			return err
		}
	}
	status := report.Outcomes[report.Done[0]]
	if r.json {
		if err := r.printJSON("ReplayReport", report); err != nil {
			return err
		}
	} else {
		r.printOne(report.Done[0], status)
	}
	switch {
	case report.Pending > 0:
		return told(exitUnreachable)
	case r.wait > 0 && status != string(schemas.Succeeded):
		return told(exitPartial)
	}
	return nil
}

func (r *replay) printOne(id, status string) {
	r.line("replayed %s", id)
	switch call, generation, err := dedupe.ParseLetterID(id); {
	case r.wait > 0 && status == "":
		r.line("  it is still running after %s", brief(r.wait))
	case r.wait > 0:
		r.line("  %s  %s", id, status)
		if status != string(schemas.Succeeded) {
			r.next("tollgate dlq ls")
		}
	case err == nil:
		r.next(fmt.Sprintf("tollgate result %s --generation %d --wait 30s", call, generation+1), "tollgate calls show "+r.short(call))
	}
}

// await asks for the call until it has an outcome of the new generation.
func (r *replay) await(ctx context.Context, report *bulkReport) error {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	report.Outcomes = map[string]string{}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		status, err := r.settled(ctx, report.Done[0])
		switch {
		case status != "":
			report.Outcomes[report.Done[0]] = status
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			report.Pending = 1
			if context.Cause(ctx) == errInterrupted {
				return errInterrupted
			}
			return nil
		case <-time.After(pause):
		}
	}
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
