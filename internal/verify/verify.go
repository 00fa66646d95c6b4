// Package verify checks the invariants on live data: what the ledger says against
// itself and against what the streams hold.
//
// It changes nothing and repairs nothing. It runs beside the traffic: what looks
// wrong may only be under way, so it is looked at again, and is a fault when nothing
// has moved and it is still wrong.
package verify

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"tollgate/budget"
	"tollgate/consumer"
	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// Ledger is what verify reads.
type Ledger interface {
	Records(after uint64, f func(seq uint64, r *dedupe.Record) bool) error
	Record(call string) (*dedupe.Record, error)
	Runs(f func(*budget.Run) bool) error
	Owed() (slots, results []*dedupe.Record, audits []dedupe.Audit)
}

// Sources are what verify compares.
type Sources struct {
	Ledger    Ledger
	JetStream jetstream.JetStream
	Subjects  schemas.Subjects
	Names     consumer.Names
}

// lookers at once: most of a look is waiting for the server.
const lookers = 8

// verifier is one run of all checks.
type verifier struct {
	Sources
	results, letters, retry jetstream.Stream
	kept                    time.Duration // results, and at least so long the records; 0: for ever

	mu       sync.Mutex // guards checks and suspects
	checks   []*control.Check
	suspects []suspect
}

// Run checks everything once. It takes as long as reading the ledger and the dead
// letters takes, and a few seconds more when something looks wrong.
func Run(ctx context.Context, s Sources) (control.VerifyReport, error) {
	v := &verifier{Sources: s}
	if err := v.open(ctx); err != nil {
		return control.VerifyReport{}, fmt.Errorf("verify: %w", err)
	}
	for _, part := range []func(context.Context) error{v.records, v.storedLetters, v.carriers, v.lookAgain, v.budgets} {
		if err := part(ctx); err != nil {
			return control.VerifyReport{}, fmt.Errorf("verify: %w", err)
		}
	}
	report := control.VerifyReport{OK: true}
	for _, c := range v.checks {
		report.OK = report.OK && len(c.Faults) == 0
		report.Checks = append(report.Checks, *c)
	}
	return report, nil
}

func (v *verifier) open(ctx context.Context) (err error) {
	for name, stream := range map[string]*jetstream.Stream{v.Names.Results: &v.results, v.Names.Letters: &v.letters, v.Names.Retry: &v.retry} {
		if *stream, err = v.JetStream.Stream(ctx, name); err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	v.kept = v.results.CachedInfo().Config.MaxAge
	return nil
}

// check adds one line to the report.
func (v *verifier) check(name, what string) *control.Check {
	c := &control.Check{Name: name, What: what}
	v.checks = append(v.checks, c)
	return c
}

// expired reports whether what was stored at an instant may be gone by now. The
// margin is for clocks and for the server's own sweep.
func (v *verifier) expired(at time.Time) bool {
	return v.kept > 0 && time.Since(at) > v.kept-min(time.Minute, v.kept/10)
}

// records walks the ledger once and holds each record against itself and the streams.
func (v *verifier) records(ctx context.Context) error {
	checks := recordChecks
	lines := make([]*control.Check, len(checks))
	for i, c := range checks {
		lines[i] = v.check(c.name, c.what)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lookers)
	err := v.Ledger.Records(0, func(_ uint64, r *dedupe.Record) bool {
		g.Go(func() error {
			for i, c := range checks {
				if !c.concerns(r) {
					continue
				}
				fault, err := c.look(ctx, v, r)
				if err != nil {
					return err
				}
				v.looked(lines[i], fault, func(ctx context.Context) (string, string, error) { return v.recordAgain(ctx, c, r.Call) })
			}
			return nil
		})
		return ctx.Err() == nil
	})
	if looked := g.Wait(); looked != nil {
		return looked
	}
	return err
}
