package bolt_test

import (
	"encoding/hex"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

// Both are for a new record version only; first the dictionary, then the record.
var (
	writeDict   = flag.Bool("write-dict", false, "write record.dict anew")
	writeGolden = flag.Bool("write-golden", false, "write the golden record anew")
)

// goldenRecord is what the golden file holds.
func goldenRecord() *dedupe.Record {
	r := settled(1)
	day := r.Published.Truncate(24 * 3600e9)
	r.Published = day.AddDate(2026-day.Year(), 0, 0)
	r.Deadline, r.FirstAttempt, r.Settled, r.Origin.Time = r.Published, r.Published, r.Published, r.Published
	r.Attempts[0].Started, r.Attempts[0].Ended = r.Published, r.Published
	r.Outcome.Attempts = r.Attempts
	r.Outcome.Timing = schemas.Timing{Published: r.Published, Deadline: r.Deadline, Settled: r.Settled}
	return r
}

// Records that were written must stay readable: the dictionary and the names in it
// are part of the file format.
func TestARecordOfThisFormatStaysReadable(t *testing.T) {
	if *writeDict {
		writeDictionary(t)
	}
	const golden = "testdata/record.v2.hex"
	if *writeGolden {
		v, err := bolt.NewEncoder().Record(goldenRecord())
		if err == nil {
			err = os.WriteFile(golden, []byte(hex.EncodeToString(v)+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	v, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := bolt.DecodeRecord(v)
	if err != nil {
		t.Fatal(err)
	}
	want := goldenRecord()
	want.Published = r.Published // the day it was written on
	if r.Key != want.Key || r.Outcome.Content[0] != want.Outcome.Content[0] || !cmp.Equal(r.Terms, want.Terms) || r.Outcome.Call != want.Call {
		t.Errorf("read back: %+v", r)
	}
}

// writeDictionary makes record.dict of a few typical records, the most usual
// last, where the compressor finds it cheapest.
func writeDictionary(t *testing.T) {
	t.Helper()
	var dict []byte
	for _, status := range []schemas.Status{schemas.Exhausted, schemas.UnknownOutcome, schemas.ToolError, schemas.Succeeded} {
		r := goldenRecord()
		o := *r.Outcome
		r.Outcome = &o
		r.Attempts[0].Decision = string(status) + ": " + string(status)
		if o.Status = status; status != schemas.Succeeded {
			r.Letter, r.LetterReason, r.State = schemas.LetterActive, string(status), dedupe.Dead
			r.Attempts[0].Class, r.Attempts[0].Phase, r.Attempts[0].Code = "transient", "no_answer", "HTTP_503"
			r.Attempts[0].Message, r.Attempts[0].Decision = "the tool answered with HTTP status 503", "retry: transient"
			o.IsError, o.NextAction, o.Error = true, schemas.Escalate, &schemas.Error{Code: schemas.CodeCallAttempts, Class: "permanent", Message: "All 4 attempts this call was allowed have failed"}
		}
		o.Content = []schemas.Content{{Type: "text", Text: `{"ok":true}`}}
		o.Structured = []byte(`{"ok":true}`)
		b, err := bolt.Body(r)
		if err != nil {
			t.Fatal(err)
		}
		dict = append(dict, b...)
	}
	if err := os.WriteFile("record.dict", dict, 0o644); err != nil {
		t.Fatal(err)
	}
}
