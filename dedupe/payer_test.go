package dedupe_test

import (
	"testing"

	"tollgate/dedupe"
)

// I4: what was charged stays with whom it was charged to, whoever pays later.
func TestEarlierGenerationsKeepTheirPayer(t *testing.T) {
	r := &dedupe.Record{Run: "a", Generation: 2, Terms: dedupe.Terms{Effect: dedupe.Write}}
	r.PaidUntilNow("a", true)
	r.Run, r.Generation, r.Terms.Effect = "b", 3, dedupe.Read
	r.PaidUntilNow("b", false)
	r.Run = "c"
	for generation, want := range map[int]dedupe.Payer{0: {Run: "a", Write: true}, 1: {Run: "a", Write: true}, 2: {Run: "b"}, 3: {Run: "c"}, 4: {Run: "c"}} {
		if run, write := r.PaidBy(generation); run != want.Run || write != want.Write {
			t.Errorf("generation %d: paid by %s, write %v; want %+v", generation, run, write, want)
		}
	}
}
