package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Expire deletes letters that were resolved or discarded and died longer than age
// ago. Active letters never expire. The audit entry is durable before the letter
// goes. It returns how many went.
func (o *Operations) Expire(ctx context.Context, age time.Duration) (int, error) {
	now := time.Now()
	var old []schemas.Letter
	err := o.Store.each(ctx, o.Ledger, Filter{State: "all", Until: now.Add(-age)}, func(l schemas.Letter) {
		if l.State == schemas.LetterResolved || l.State == schemas.LetterDiscarded {
			old = append(old, l)
		}
	})
	if err != nil {
		return 0, err
	}
	st, err := o.Store.js.Stream(ctx, o.Store.stream)
	if err != nil {
		return 0, err
	}
	for i, l := range old {
		receipt, err := o.Ledger.Update(ctx, dedupe.Ref{Tenant: l.Tenant}, func(dedupe.View) dedupe.Change {
			return dedupe.Change{Audit: []dedupe.Audit{{At: now, Tenant: l.Tenant, Action: "expire", Target: l.ID, By: "dispatcher", Allowed: true,
				Why: fmt.Sprintf("%s, and died more than %s ago", l.State, age)}}}
		})
		if err != nil {
			return i, err
		}
		o.Publisher.PublishReceipt(nil, receipt)
		if err := st.DeleteMsg(ctx, l.Sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return i, fmt.Errorf("expire dead letter %s: %w", l.ID, err)
		}
	}
	return len(old), nil
}
