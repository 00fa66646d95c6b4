package dispatcher

import (
	"strings"
	"testing"
	"time"

	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// I12, B66: an outcome fits a message with the longest history a call can have beside
// the largest result; one that did not would be owed for ever.
func TestI12AnOutcomeFitsAMessageWhateverTheHistory(t *testing.T) {
	const payload = 1 << 20
	wide := strings.Repeat("<", clipped)
	var attempts []schemas.Attempt
	for n := range 64 {
		attempts = append(attempts, schemas.Attempt{N: n + 1, Started: time.Now(), Ended: time.Now(), Class: "transient", Phase: "answered", Code: "X", Message: wide, Decision: "retry: transient"})
	}
	for _, size := range []int{10, 100_000, 200_000, 400_000, 700_000, 900_000} {
		doc := []byte(`"` + strings.Repeat("x", size) + `"`)
		v := fitOutcome(classify.Success([]schemas.Content{{Type: "text", Text: string(doc)}}, doc), payload-schemas.BodyReserve-history(attempts[:63]))
		o := schemas.Outcome{V: 1, Attempts: attempts, Content: v.Content, Structured: v.Structured}
		if b, err := o.Encode(); err != nil || len(b) > payload-16<<10 {
			t.Errorf("a result of %d bytes makes an outcome of %d (%v)", size, len(b), err)
		}
		if size <= 200_000 && !v.OK() {
			t.Errorf("a result of %d bytes is refused: %+v", size, v)
		}
	}
}
