package dispatcher

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// Records is the ledger as recovery and cancellation walk it.
type Records interface {
	Running(func(*dedupe.Record) bool)
	Waiting(tenant, root string) []string
	Epoch() uint64
}

// recoveries at once: they share commits.
const recoverAtOnce = 64

// Recover settles every attempt that nobody is making any more: claimed by a dead
// process, or past its lease. It is the only driver of recovery; a delivery never
// decides one. What the gate sees is a transient failure without an answer. It
// takes no quota token and does not feed the breaker.
func (d *Dispatcher) Recover(ctx context.Context, rs Records) (int, error) {
	now := time.Now()
	var lost []*dedupe.Record
	rs.Running(func(r *dedupe.Record) bool {
		if (r.Epoch != rs.Epoch() || now.After(r.Lease)) && !d.running.busy(r.Call) {
			lost = append(lost, r)
		}
		return true
	})
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(recoverAtOnce)
	for _, r := range lost {
		g.Go(func() error { return d.recover(ctx, r) })
	}
	return len(lost), g.Wait()
}

func (d *Dispatcher) recover(ctx context.Context, r *dedupe.Record) error {
	s := settling{record: r, request: r.Request, recovered: true,
		verdict: classify.Lost(schemas.CodeCrashed, "the dispatcher died while the attempt was running")}
	if r.State == dedupe.Reconciling {
		s.reconciled = true
		s.verdict = classify.Unknown(classify.NoAnswer, schemas.CodeUndetermined, "the dispatcher died while the reconcile hook was being asked")
	}
	if s.request == nil {
		q, err := d.cfg.Requests.Fetch(ctx, r.Origin)
		switch {
		case err == nil:
			s.request = &q
		case !errors.Is(err, dedupe.ErrNotFound):
			return err // the server is away: the next round tries again
		}
	}
	if settled := d.settleAndAct(ctx, s); settled.Pending && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}
