package dedupe

import "slices"

// Payer is who paid for the attempts of earlier generations: another run, after a
// replay into one, or a call whose key was released and used again.
type Payer struct {
	Before int    `json:"before"` // it paid for the generations below this one that no payer before it did
	Run    string `json:"run"`
	Write  bool   `json:"write,omitempty"` // a side effect was charged with each
}

// PaidUntilNow keeps who has paid so far, before the record's run or effect changes.
// Its current generation is the first that the new payer pays for.
func (r *Record) PaidUntilNow(run string, write bool) {
	r.Payers = append(slices.Clone(r.Payers), Payer{Before: r.Generation, Run: run, Write: write})
}

// PaidBy says which run path was charged for the attempts of a generation, and
// whether a side effect was charged with each.
func (r *Record) PaidBy(generation int) (run string, write bool) {
	for _, p := range r.Payers {
		if generation < p.Before {
			return p.Run, p.Write
		}
	}
	return r.Run, r.Terms.Write()
}
