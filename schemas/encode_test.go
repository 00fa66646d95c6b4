package schemas

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// plainOutcome has the fields and tags of an outcome, and none of its methods.
type plainOutcome Outcome

// An outcome is written as encoding/json would write it, whatever is in it. The
// generator fills every field there is, so a new one that is not written fails.
func TestAnOutcomeIsWrittenAsItsTagsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Outcome
		generate(t, "outcome", reflect.ValueOf(&o).Elem(), 0)
		want := plainOutcome(o)
		if want.Attempts == nil {
			want.Attempts = []Attempt{}
		}
		expected, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.Encode()
		if err != nil || string(got) != string(expected) {
			t.Fatalf("%v\n%s\nencoding/json writes\n%s", err, got, expected)
		}
	})
}

var texts = []string{"", "a", "plain text", `"quoted"`, "<a & b>", "é\u2028", "\x00\x1f\x7f", "broken \xff utf-8", `back\slash`}

func generate(t *rapid.T, name string, v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(t, name), rapid.Int64Range(0, 999_999_999).Draw(t, name))
		if rapid.Bool().Draw(t, name) {
			*x = x.UTC()
		}
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			*x = time.Time{}
		}
		return
	case *json.RawMessage:
		*x = json.RawMessage(rapid.SampledFrom([]string{"", "null", `{"a":1}`, "{ \"a\" : [1, 2] }", `"<é>"`, `"\u003c"`, `[1e400,"\ud800"]`}).Draw(t, name))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.SampledFrom(texts), rapid.String()).Draw(t, name))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.SampledFrom([]int64{0, 1, -1, 1 << 40}).Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Pointer:
		if depth < 4 && rapid.Bool().Draw(t, name) {
			v.Set(reflect.New(v.Type().Elem()))
			generate(t, name, v.Elem(), depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, name), 3))
		for i := range v.Len() {
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

// What cannot be written is an error, as it was before, and never half a document.
func TestAnOutcomeThatIsNoJSONIsAnError(t *testing.T) {
	for name, o := range map[string]Outcome{
		"structured":  {Structured: json.RawMessage("{ broken")},
		"year 10,000": {Timing: Timing{Settled: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
	} {
		if b, err := json.Marshal(o); err == nil {
			t.Errorf("%s: written as %s", name, b)
		}
	}
	if b, err := json.Marshal(&Outcome{}); err != nil || !strings.Contains(string(b), `"attempts":[]`) {
		t.Errorf("%s, %v", b, err)
	}
}

func BenchmarkEncode(b *testing.B) {
	o := Outcome{V: 1, ID: "8f3.0.1-1", Tenant: "default", Lane: Calls, Run: "run-1", Tool: "bench.noop", Call: "8f3", Key: "k", Fingerprint: strings.Repeat("a", 64),
		Status: Succeeded, Content: []Content{{"text", "done"}}, Structured: json.RawMessage(`{"text":"` + strings.Repeat("x", 289) + `"}`),
		Attempts: []Attempt{{N: 1, Started: time.Now(), Ended: time.Now(), Decision: "succeeded", Reached: true}}}
	for b.Loop() {
		if _, err := o.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}
