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
	all, err := o.Index.letters(ctx)
	t := Tally{By: map[Cause]int{}}
	for e, state := range matching(all, &matcher{}) {
		if state != schemas.LetterActive {
			continue
		}
		k := e.kind.Value()
		t.By[Cause{k.tool, k.reason}]++
		if t.Oldest.IsZero() || e.died.Before(t.Oldest) {
			t.Oldest = e.died
		}
	}
	return t, err
}
