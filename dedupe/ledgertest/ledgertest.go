// Package ledgertest is what every ledger must do, whatever stores it. Each
// implementation runs it in its own tests.
//
// It tests the port and the reads around it, never the decisions of a mutation.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// Retention is what the ledgers under test must keep settled calls for.
const Retention = time.Hour

// Ledger is a ledger under test.
type Ledger interface {
	Update(ctx context.Context, ref dedupe.Ref, m dedupe.Mutation) (dedupe.Receipt, error)
	Published(p dedupe.Publication)
	Record(call string) (*dedupe.Record, error)
	Run(tenant, root string) (*budget.Run, error)
	Owed() (slots, results []*dedupe.Record, audits []dedupe.Audit)
	Running(f func(*dedupe.Record) bool)
	Waiting(tenant, root string) []string
	Overdue(before time.Time) []string
	Counts() (running, waiting int)
	Epoch() uint64
	ID() string
	Close() error

	// FailCommits makes every commit fail with err, until it is called with nil.
	FailCommits(err error)
	// Commits counts the commits that succeeded.
	Commits() uint64
}

// Open opens, or makes, the ledger whose files are in dir.
type Open = func(t *testing.T, dir string) Ledger

// Run runs the suite. Every test has its own directory and virtual time.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, *bench){
		"I3 fifty siblings never overspend":               siblings,
		"changes of one batch see each other":             staged,
		"views are copies":                                copies,
		"the payer of a record is its run":                payer,
		"a crash keeps what was acknowledged":             crash,
		"what is owed comes back until it is published":   owing,
		"numbers rise across restarts":                    numbers,
		"an old token does not clear a newer slot":        newerSlot,
		"a published letter gives up its request":         publishedLetter,
		"an edited call is owed by its letter's record":   editedCall,
		"a settled call expires after its retention":      expiry,
		"a pending call never expires":                    pending,
		"waiting calls are found by run and by due time":  waitingCalls,
		"a live letter pins its record and its run":       pinning,
		"a result that is not out keeps its record":       owedStays,
		"a replayed record is live again":                 reopened,
		"a failed commit changes nothing and is got over": failure,
		"a mutation that panics harms nobody else":        panics,
		"a change that cannot be stored harms nobody":     unstorable,
		"a cancelled caller changes nothing":              cancelled,
		"many changes share a commit":                     groups,
		"a closed ledger says so":                         closed,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{t: t, open: open, dir: t.TempDir()}
				b.Ledger = open(t, b.dir)
				t.Cleanup(func() { _ = b.Close() })
				test(t, b)
			})
		})
	}
}

// bench is a ledger and what a test does with it.
type bench struct {
	Ledger
	t    *testing.T
	open Open
	dir  string
}

// update commits a change that must succeed.
func (b *bench) update(ref dedupe.Ref, m dedupe.Mutation) dedupe.Receipt {
	b.t.Helper()
	receipt, err := b.Update(context.Background(), ref, m)
	if err != nil {
		b.t.Fatalf("update: %v", err)
	}
	return receipt
}

// put commits a record as it is.
func (b *bench) put(r *dedupe.Record) {
	b.t.Helper()
	b.update(r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r} })
}

// view returns what a mutation sees.
func (b *bench) view(ref dedupe.Ref) (v dedupe.View) {
	b.t.Helper()
	b.update(ref, func(seen dedupe.View) dedupe.Change { v = seen; return dedupe.Change{} })
	return v
}

func (b *bench) record(call string) *dedupe.Record {
	b.t.Helper()
	r, err := b.Record(call)
	if err != nil {
		b.t.Fatalf("record: %v", err)
	}
	return r
}

// gone reports whether the ledger no longer knows the call.
func (b *bench) gone(call string) bool {
	_, err := b.Record(call)
	return errors.Is(err, dedupe.ErrNotFound)
}

// crash goes on with a copy of the files as they are now: the process died.
func (b *bench) crash() {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(b.dir)); err != nil {
		b.t.Fatal(err)
	}
	old := b.Ledger
	b.t.Cleanup(func() { _ = old.Close() })
	b.dir = dir
	b.Ledger = b.open(b.t, dir)
}

// restart closes the ledger and opens it again.
func (b *bench) restart() {
	b.t.Helper()
	if err := b.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.Ledger = b.open(b.t, b.dir)
}

// call makes a record of run r1, named by its number.
func call(n int, s dedupe.State) *dedupe.Record {
	key := fmt.Sprintf("k%d", n)
	now := time.Now().UTC()
	r := &dedupe.Record{
		Call: dedupe.CallID("t1", "r1", "pay", key), Tenant: "t1", Lane: schemas.Calls, Root: "r1", Run: "r1/child",
		Tool: "pay", Key: key, State: s, Token: 1, Published: now, Deadline: now.Add(time.Minute),
		Attempts: []schemas.Attempt{{N: 1, Started: now, Ended: now, Code: "OK", Reached: true}},
	}
	r.DownstreamKey = r.Call
	if s.Terminal() {
		r.Settled = now
		r.Outcome = outcome(r)
	}
	return r
}

// outcome answers the record's call.
func outcome(r *dedupe.Record) *schemas.Outcome {
	return &schemas.Outcome{V: 1, ID: dedupe.LetterID(r.Call, r.Generation), Tenant: r.Tenant, Lane: r.Lane, Run: r.Run,
		Tool: r.Tool, Call: r.Call, Generation: r.Generation, Key: r.Key, Status: schemas.Succeeded,
		Content: []schemas.Content{{Type: "text", Text: "<paid> & done"}}, NextAction: schemas.Return,
		Attempts: r.Attempts, Timing: schemas.Timing{Published: r.Published, Deadline: r.Deadline, Settled: r.Settled}}
}

// settle commits the record and owes its outcome.
func (b *bench) settle(r *dedupe.Record) uint64 {
	b.t.Helper()
	return b.update(r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r, Result: true} }).Result
}
