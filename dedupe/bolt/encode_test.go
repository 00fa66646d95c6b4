package bolt

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tollgate/dedupe"
	"tollgate/schemas"
)

func pack(r *dedupe.Record) *stored {
	s := &stored{Record: r, Root: r.Root, DownstreamKey: r.DownstreamKey, Terms: storedTerms(r.Terms),
		Maxima: storedMaxima(r.Terms.Run), Origin: storedOrigin(r.Origin), Outcome: r.Outcome}
	for _, a := range r.Attempts {
		s.Attempts = append(s.Attempts, storedAttempt(a))
	}
	if s.Root == schemas.Root(r.Run) {
		s.Root = ""
	}
	if s.DownstreamKey == r.Call {
		s.DownstreamKey = ""
	}
	if r.Outcome != nil && ownOutcome(r) {
		o := storedOutcome(*r.Outcome)
		s.Own, s.Outcome = &o, nil
		if o.Timing == timing(r) {
			o.Timing = schemas.Timing{}
		}
		s.OwnAttempts = len(r.Outcome.Attempts) > 0
	}
	return s
}

// A record is read back as if the library had written it, whatever is in it. The
// generator fills every field there is, so a new one that is not written fails.
func TestARecordIsWrittenAsTheLibraryWouldWriteIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r dedupe.Record
		generate(t, "record", reflect.ValueOf(&r).Elem(), 0)
		if r.Outcome != nil && rapid.Bool().Draw(t, "its own outcome") {
			identify(r.Outcome, &r)
			if len(r.Outcome.Structured) > 0 && rapid.Bool().Draw(t, "said twice") {
				r.Outcome.Content = []schemas.Content{{Type: "text", Text: string(r.Outcome.Structured)}}
			}
			if rapid.Bool().Draw(t, "a usual fingerprint") {
				r.Fingerprint = strings.Repeat("0a", 32)
			}
			if r.Outcome.Attempts = r.Attempts; rapid.Bool().Draw(t, "and its instants") {
				r.Outcome.Timing = timing(&r)
			}
		}
		byLibrary, err := encMode.Marshal(pack(&r))
		if err != nil {
			t.Fatal(err)
		}
		w := writer{}
		if w.record(&r); w.err != nil {
			t.Fatal(w.err)
		}
		want, got := read(t, byLibrary), read(t, w.out)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("read back otherwise (-library +writer):\n%s", diff)
		}
	})
}

func read(t *rapid.T, body []byte) *dedupe.Record {
	s := stored{Record: &dedupe.Record{}}
	if err := decMode.Unmarshal(body, &s); err != nil {
		t.Fatalf("%x: %v", body, err)
	}
	return unpack("the call", &s)
}

func generate(t *rapid.T, name string, v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		if rapid.IntRange(0, 3).Draw(t, name) > 0 {
			*x = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, name), rapid.Int64Range(0, 999_999_999).Draw(t, name)).UTC()
		}
		return
	case *json.RawMessage:
		*x = json.RawMessage(rapid.SampledFrom([]string{"", "null", `{"a":1}`}).Draw(t, name))
		return
	case *dedupe.State:
		*x = dedupe.State(rapid.IntRange(1, 6).Draw(t, name))
		return
	case *schemas.Header:
		*x = rapid.MapOfN(rapid.String(), rapid.SliceOfN(rapid.String(), 1, 2), 0, 3).Draw(t, name)
		return
	case *[]byte:
		*x = rapid.SliceOf(rapid.Byte()).Draw(t, name)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.SampledFrom([]string{"", "a", "run-1/child", "\xff"}), rapid.String()).Draw(t, name))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.SampledFrom([]int64{0, 1, -1, 23, 24, 255, 256, 65536, 1 << 40}).Draw(t, name))
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(uint64(rapid.IntRange(0, 255).Draw(t, name)))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Pointer:
		if depth < 4 && rapid.Bool().Draw(t, name) {
			v.Set(reflect.New(v.Type().Elem()))
			generate(t, name, v.Elem(), depth+1)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, name)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			generate(t, fmt.Sprintf("%s[%d]", name, i), v.Index(i), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			generate(t, v.Type().Field(i).Name, v.Field(i), depth)
		}
	default:
		t.Fatalf("%s: no generator for %s", name, v.Type())
	}
}
