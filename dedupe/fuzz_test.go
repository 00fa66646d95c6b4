package dedupe_test

import (
	"testing"

	"tollgate/dedupe"
)

// A letter has one ID: what is read is what would be written.
func FuzzParseLetterID(f *testing.F) {
	for _, s := range []string{"gllmcv863tdk43dsdjcs98pjqs.0", "c.+1", "c.01", "c.-1", ".1", "c", "c.9223372036854775808", "a.b.1", "c. 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		call, g, err := dedupe.ParseLetterID(id)
		if err == nil && (dedupe.LetterID(call, g) != id || call == "" || g < 0) {
			t.Errorf("%q was read as call %q, generation %d", id, call, g)
		}
	})
}
