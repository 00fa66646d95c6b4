package client

import (
	"encoding/json"
	"testing"

	"tollgate/schemas"
)

// What is taken for an outcome has a version and a status, and can be given on.
func FuzzDecodeOutcome(f *testing.F) {
	for _, s := range []string{`{"v":1,"status":"succeeded","attempts":[]}`, `{"v":2,"status":"succeeded"}`, `{"v":1}`, `{"v":1,"status":"failed","error":null,"attempts":[{}],"structured":{"a":[1]}}`,
		`{"v":1,"status":"x","timing":{"settled":"yesterday"}}`, `{"v":1,"status":"\ud800","structured":"\u2028","content":[{"type":"text","text":"\u0000"}]}`, "null", "[]", "", `{"V":1,"STATUS":"succeeded"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decode(b)
		if err != nil {
			return
		}
		if o.V != schemas.Version || o.Status == "" {
			t.Fatalf("%q was taken for an outcome", b)
		}
		if e := (&OutcomeError{Outcome: o}); e.Error() == "" {
			t.Error("an error without words")
		}
		written, err := o.Encode()
		if err != nil || !json.Valid(written) {
			t.Fatalf("%q is written as %q (%v)", b, written, err)
		}
		again, err := decode(written)
		if err != nil || again.Status != o.Status || again.Code() != o.Code() || len(again.Attempts) != len(o.Attempts) || string(again.Structured) == "" && len(o.Structured) > 0 {
			t.Errorf("%q became %q (%v)", b, written, err)
		}
	})
}
