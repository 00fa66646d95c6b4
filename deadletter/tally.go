package deadletter

import (
	"context"
	"time"

	"tollgate/schemas"
)

// Tally counts the active letters.
type Tally struct {
	By     map[Cause]int
	Oldest time.Time // when the first of them died; zero: there is none
}

// Cause is what a letter is counted by.
type Cause struct{ Tool, Reason string }

// Tally counts the active letters by what they died of.
func (o *Operations) Tally(ctx context.Context) (Tally, error) {
	t := Tally{By: map[Cause]int{}}
	err := o.Store.each(ctx, o.Ledger, Filter{}, func(l schemas.Letter) {
		t.By[Cause{l.Tool, l.Reason}]++
		if t.Oldest.IsZero() || l.DiedAt.Before(t.Oldest) {
			t.Oldest = l.DiedAt
		}
	})
	return t, err
}
