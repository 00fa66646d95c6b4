package dedupe_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tollgate/dedupe"
)

func TestSameArguments(t *testing.T) {
	for _, same := range [][2]string{
		{`{"a":1,"b":[true,null]}`, " {\n\"b\" : [ true , null ],\t\"a\":1 } "},
		{`{"a":"é/<&>"}`, `{"\u0061":"\u00e9\/\u003c\u0026\u003e"}`},
		{`{"a":"\ud83d\ude00"}`, `{"a":"😀"}`},
		{`{"a":"\\ud800"}`, `{"a":"\u005cud800"}`}, // a backslash, and not an escape
		{`{"a":{"y":1,"x":{}}}`, `{"a":{"x":{},"y":1}}`},
		{`{}`, ` { } `},
	} {
		a, errA := dedupe.Fingerprint([]byte(same[0]))
		b, errB := dedupe.Fingerprint([]byte(same[1]))
		if errA != nil || errB != nil || a != b {
			t.Errorf("%s and %s differ: %s %s (%v, %v)", same[0], same[1], a, b, errA, errB)
		}
	}
}

// I13: other arguments under the same key are never taken for the same.
func TestOtherArguments(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []string{
		`{"cents":9007199254740993}`, `{"cents":9007199254740992}`, `{"a":1}`, `{"a":1.0}`, `{"a":1e0}`, `{"a":"1"}`,
		`{"a":0}`, `{"a":-0}`, `{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":[12]}`, `{"a":null}`, `{}`, `{"a":{}}`, `{"a":[]}`, `{"a":""}`,
		`{"A":1}`, `{"a":" "}`, `{"a":true}`, `{"a":"true"}`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":{"b":1},"c":2}`, `{"a":{"b":1,"c":2}}`,
		`{"é":1}`, `{"e\u0301":1}`,
	} {
		f, err := dedupe.Fingerprint([]byte(s))
		if err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if other, taken := seen[f]; taken {
			t.Errorf("%s and %s have one fingerprint", s, other)
		}
		seen[f] = s
	}
}

func TestCanonicalSortsKeysByBytes(t *testing.T) {
	got, err := dedupe.Canonical([]byte(`{"é":1,"z":2,"Z":3,"a":4,"":5,"aa":6}`))
	if want := `{"":5,"Z":3,"a":4,"aa":6,"z":2,"é":1}`; string(got) != want || err != nil {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestRefusedArguments(t *testing.T) {
	deep := func(open, close string, n int) string {
		return `{"a":` + strings.Repeat(open, n) + "1" + strings.Repeat(close, n) + `}`
	}
	for s, part := range map[string]string{
		"":                              "empty",
		" \n":                           "empty",
		"null":                          "one JSON object",
		"[]":                            "one JSON object",
		`"a"`:                           "one JSON object",
		`{"a":1`:                        "not JSON",
		`{"a":1}{}`:                     "not JSON",
		`{"a":01}`:                      "not JSON",
		`{'a':1}`:                       "not JSON",
		`{"a":NaN}`:                     "not JSON",
		`{"a":1,"a":1}`:                 `"/a"`,
		`{"a":1,"\u0061":2}`:            `"/a"`,
		`{"x":[0,{"k":1,"b":2,"k":3}]}`: `"/x/1/k"`,
		"{\"a\":\"\xff\"}":              "UTF-8",
		`{"a":"x\ud800"}`:               `half a character, a surrogate without its other, in "/a"`,
		`{"a":{"b":["\udc00"]}}`:        `"/a/b/0"`,
		`{"a":"\ud800\u0041"}`:          "half a character",
		`{"\ud83d\ud83d\ude00":1}`:      "half a character",
		deep("[", "]", 64):              "deeper",
		deep(`{"b":`, "}", 64):          "deeper",
	} {
		_, err := dedupe.Fingerprint([]byte(s))
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.40s: error %v, want one about %s", s, err, part)
		}
	}
	for _, s := range []string{deep("[", "]", 63), deep(`{"b":`, "}", 63)} {
		if _, err := dedupe.Fingerprint([]byte(s)); err != nil {
			t.Errorf("nested 64 deep: %v", err)
		}
	}
}

// Whatever the bytes: no panic, and what passes is stable, means the same and does
// not depend on how it was written.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"a":1}`, `{"b":[1,{"x":null}],"a":"\u0000\ud800"}`, `{"a":"\ud83d\ude00"}`, `{"a":1,"a":2}`, `{"a":1e400}`, "{\"\xff\":1,\"\xfe\":2}",
		`{"cents":9007199254740993}`, `[]`, `{`, `{"a":-0.0}`, `{"\u2028":"<>&"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := dedupe.Canonical(b)
		if err != nil {
			return
		}
		twice, err := dedupe.Canonical(once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("canonical form of %q is %q, of that %q (%v)", b, once, twice, err)
		}
		if !reflect.DeepEqual(decode(t, b), decode(t, once)) {
			t.Fatalf("%q means something else as %q", b, once)
		}
		spaced := fmt.Appendf(nil, "\n %s\t", b)
		if again, err := dedupe.Canonical(spaced); err != nil || string(again) != string(once) {
			t.Fatalf("white space changes %q: %q (%v)", b, again, err)
		}
	})
}

func decode(t *testing.T, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return v
}
