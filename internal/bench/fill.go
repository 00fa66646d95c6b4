package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

// fillers at once: they share commits.
const fillers = 512

// fill makes a ledger that has been used: settled calls, and calls that wait for an
// attempt an hour away.
func fill(ctx context.Context, path string, o Options) (err error) {
	if o.Retained+o.PendingRetries == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	l, err := bolt.Open(path, bolt.Options{Sync: time.Second, Retention: retention, Create: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	now := time.Now()
	const some = 1000 // of a commit or a few
	total := o.Retained + o.PendingRetries
	err = each(ctx, (total+some-1)/some, 4, func(ctx context.Context, _, n int) error {
		var records []*dedupe.Record
		for i := n * some; i < min(total, (n+1)*some); i++ {
			r := used(i, now)
			if i >= o.Retained {
				wait(r, now.Add(time.Hour+time.Duration(i)*time.Millisecond))
			}
			records = append(records, r)
		}
		return l.Import(ctx, records)
	})
	if err != nil {
		return err
	}
	return each(ctx, (total+callsPerRun-1)/callsPerRun, fillers, func(ctx context.Context, _, n int) error {
		run := paid(used(n*callsPerRun, now), now)
		_, err := l.Update(ctx, dedupe.Ref{Tenant: run.Tenant, Root: run.Root}, func(dedupe.View) dedupe.Change { return dedupe.Change{Run: run} })
		return err
	})
}

// paid is the run of a filled call, with all its calls charged at once: the filling
// should take no longer than it must.
func paid(r *dedupe.Record, now time.Time) *budget.Run {
	run := budget.New(r.Tenant, r.Root, now)
	run.Accounts[r.Run] = budget.Account{Path: r.Run, Opened: now, Attempts: callsPerRun, Effects: callsPerRun,
		Limits: budget.Limits{Attempts: r.Terms.Run.Attempts, SideEffects: r.Terms.Run.SideEffects, Deadline: now.Add(r.Terms.Run.Elapsed)}}
	run.Used = now
	return run
}

// used is a call as one successful attempt leaves it.
func used(i int, now time.Time) *dedupe.Record {
	run, key := fmt.Sprintf("filled-%d", i/callsPerRun), fmt.Sprintf("step-%d", i)
	r := &dedupe.Record{
		Call: dedupe.CallID("default", run, toolName, key), Tenant: "default", Lane: schemas.Calls, Root: run, Run: run, Tool: toolName, Key: key,
		Fingerprint: fmt.Sprintf("%064x", i), State: dedupe.Done, Tries: 1, Fence: 1, Epoch: 1, Published: now, Deadline: now.Add(time.Hour), FirstAttempt: now, Settled: now,
		Terms: dedupe.Terms{Policy: "bench", Effect: dedupe.Write, Safety: dedupe.IdempotencyKey, KeyRetention: 24 * time.Hour, Attempts: 3, Timeout: 10 * time.Second,
			BackoffBase: 100 * time.Millisecond, BackoffCap: time.Second, ThrottleBase: time.Second, MaxRetryAfter: time.Minute, MaxRepairs: 1, Dependency: toolName,
			Run: budget.Maxima{Attempts: 1e6, SideEffects: 1e6, Elapsed: 12 * time.Hour, Accounts: 4}, Window: time.Hour},
		Attempts: []schemas.Attempt{{N: 1, Started: now, Ended: now.Add(time.Millisecond), Phase: "answered", Reached: true, Decision: "succeeded: succeeded"}},
		Origin:   schemas.Origin{Stream: "TOLLGATE_CALLS", Subject: "tollgate.calls.default." + toolName, Sequence: uint64(i + 1), Time: now},
	}
	r.DownstreamKey = r.Call
	r.Outcome = &schemas.Outcome{
		V: schemas.Version, ID: r.Call + ".0.1-1", Tenant: r.Tenant, Lane: r.Lane, Run: r.Run, Tool: r.Tool, Call: r.Call, Key: key, Fingerprint: r.Fingerprint,
		Status: schemas.Succeeded, Content: []schemas.Content{{Type: "text", Text: string(result)}}, Structured: result, NextAction: schemas.Return, Attempts: r.Attempts,
		Timing: schemas.Timing{Published: r.Published, Deadline: r.Deadline, Settled: r.Settled},
	}
	return r
}

// wait turns it into a call whose first attempt failed, with its schedule owed: the
// dispatcher arms it when it starts.
func wait(r *dedupe.Record, due time.Time) {
	r.State, r.Outcome, r.Settled, r.Due, r.Token, r.Slot = dedupe.Waiting, nil, time.Time{}, due, 1, dedupe.SlotSchedule
	r.Deadline = due.Add(time.Hour)
	r.Attempts[0].Class, r.Attempts[0].Code, r.Attempts[0].Decision = "transient", "HTTP_503", "retry: transient"
	m := Options{}.message("tollgate.calls", "filled", 0)
	m.Header.Set(schemas.HeaderRun, r.Run)
	m.Header.Set(schemas.HeaderKey, r.Key)
	r.Request = &schemas.Request{Lane: r.Lane, Tenant: r.Tenant, Tool: r.Tool, Run: r.Run, Key: r.Key, Deadline: r.Deadline, Header: schemas.Header(m.Header), Body: m.Data}
}
