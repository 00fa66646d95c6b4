package deadletter

import (
	"context"
	"fmt"
	"time"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Expire deletes letters that were resolved or discarded and died longer than age
// ago, and what a purge has left. Active letters never expire. The audit entry is
// durable before the letter goes. It returns how many went.
func (o *Operations) Expire(ctx context.Context, age time.Duration) (int, error) {
	entries, err := o.Index.letters(ctx)
	if err != nil {
		return 0, err
	}
	now, gone := time.Now(), 0
	for e, state := range matching(entries, &matcher{}) {
		dealtWith := state == schemas.LetterResolved || state == schemas.LetterDiscarded
		if state != schemas.LetterPurged && !(dealtWith && e.died.Before(now.Add(-age))) {
			continue
		}
		if err := o.expire(ctx, e, state, age, now); err != nil {
			return gone, err
		}
		gone++
	}
	return gone, o.forget(ctx)
}

func (o *Operations) expire(ctx context.Context, e *entry, state schemas.LetterState, age time.Duration, now time.Time) error {
	tenant, id := e.kind.Value().tenant, dedupe.LetterID(e.fate.call, e.generation)
	why := fmt.Sprintf("%s, and died more than %s ago", state, age)
	if state == schemas.LetterPurged {
		why = "purged, and was still there"
	}
	receipt, err := o.Ledger.Update(ctx, dedupe.Ref{Tenant: tenant}, func(dedupe.View) dedupe.Change {
		return dedupe.Change{Audit: []dedupe.Audit{{At: now, Tenant: tenant, Action: "expire", Target: id, By: "dispatcher", Allowed: true, Why: why, Before: string(state)}}}
	})
	if err != nil {
		return err
	}
	o.Publisher.PublishReceipt(nil, receipt)
	if _, err := o.Index.take(ctx, e.seq); err != nil {
		return fmt.Errorf("expire dead letter %s: %w", id, err)
	}
	return nil
}
