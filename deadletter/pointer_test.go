package deadletter

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAssign(t *testing.T) {
	const doc = ` {"a": 1.10, "big":12345678901234567890 ,"l":[ 1, {"x~/y":null} ], "":{}, "é":"\u00e9<"} `
	for _, tc := range []struct{ pointer, value, old, now string }{
		{"/a", "2", "1.10", "2"},
		{"/big", `"x"`, "12345678901234567890", `"x"`},
		{"/l/0", "[]", "[ 1,", "[ [],"},
		{"/l/1/x~0~1y", "true", "null", "true"},
		{"/l/2", "3", `null} ]`, `null} ,3]`},
		{"/l/-", "3", `null} ]`, `null} ,3]`},
		{"/l", "0", `[ 1, {"x~/y":null} ]`, "0"},
		{"/", "1", `"":{}`, `"":1`},
		{"//new~0", "1", `"":{}`, `"":{"new~":1}`},
		{"/é", "1", `"\u00e9<"`, "1"},
		{"", "{}", doc, "{}"},
		{"/new", `{"b":1}`, `<"}`, `<","new":{"b":1}}`},
	} {
		want := strings.Replace(doc, tc.old, tc.now, 1)
		got, err := assign([]byte(doc), Assignment{tc.pointer, json.RawMessage(tc.value)})
		if err != nil || string(got) != want {
			t.Errorf("%s: %s %v\nwant %s", tc.pointer, got, err, want)
		}
	}
	for pointer, part := range map[string]string{
		"a": "not a JSON pointer", "/a/b": "/a/b: is in neither", "/no/b": "/no: is not there", "/l/9": "/l/9: is not there: the list has 2",
		"/l/01": "want a number", "/l/-1": "want a number", "/l/x": "want a number", "/l/-/a": "is not there",
	} {
		if _, err := assign([]byte(doc), Assignment{pointer, json.RawMessage("1")}); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", pointer, err, part)
		}
	}
	if _, err := assign([]byte(doc), Assignment{"/a", json.RawMessage("alice")}); err == nil {
		t.Error("a value that is no JSON is assigned")
	}
}

// What was assigned is found in its place, and taking it back leaves the document as it was.
func TestAssignedIsLookedUpAndTakenBack(t *testing.T) {
	keys := rapid.SampledFrom([]string{"a", "b~c", "d/e", "", "é\"", "0"})
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return rapid.Map(rapid.Int64(), func(n int64) any { return n })
		}
		return rapid.OneOf(value(0), rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(keys, value(depth-1), 0, 3), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		doc, _ := json.Marshal(map[string]any{"k": value(3).Draw(t, "doc")})
		pointer := "/k"
		for at, steps := reach(doc, pointer), 0; len(at) > 0 && steps < 3; steps++ {
			pointer = rapid.SampledFrom(at).Draw(t, "pointer")
			at = reach(doc, pointer)
		}
		was, there := lookUp(doc, pointer)
		if !there {
			t.Fatalf("%s is not found in %s", pointer, doc)
		}
		was = append([]byte(nil), was...)
		changed, err := assign(doc, Assignment{pointer, json.RawMessage(`"new"`)})
		if err != nil || !json.Valid(changed) {
			t.Fatalf("%s: %s %v", pointer, changed, err)
		}
		if now, _ := lookUp(changed, pointer); string(now) != `"new"` {
			t.Fatalf("%s is %s in %s", pointer, now, changed)
		}
		if back, err := assign(changed, Assignment{pointer, was}); err != nil || string(back) != string(doc) {
			t.Fatalf("%s taken back: %s %v, want %s", pointer, back, err, doc)
		}
	})
}

// reach is the pointers one step below another.
func reach(doc []byte, pointer string) (out []string) {
	raw, _ := lookUp(doc, pointer)
	var m map[string]json.RawMessage
	var l []json.RawMessage
	if json.Unmarshal(raw, &m) == nil {
		for k := range m {
			out = append(out, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k))
		}
	}
	if json.Unmarshal(raw, &l) == nil {
		for i := range l {
			out = append(out, pointer+"/"+string(rune('0'+i)))
		}
	}
	return out
}

// A mask that is left stands for the stored value; what was written in its place, and
// a mask where nothing is hidden, stay.
func TestUnmask(t *testing.T) {
	stored := []byte(`{"card":{"number":4111,"cvc":"1"},"note":"•••","gone":1}`)
	hidden := []string{"/card/number", "/card/cvc", "/none"}
	shown := masked(stored, hidden, func(string) string { return Mask })
	if want := `{"card":{"number":"•••","cvc":"•••"},"note":"•••","gone":1}`; string(shown) != want {
		t.Errorf("masked: %s", shown)
	}
	for doc, want := range map[string]string{ // what is no arguments has no place that could be told apart
		`{"card":{"number":1}`: `"•••"`, `{"card":{"number":1},"card":{"number":2}}`: `"•••"`, `{"card":[{"cvc":1}]}`: `{"card":[{"cvc":1}]}`,
	} {
		if got := masked([]byte(doc), hidden, func(string) string { return Mask }); string(got) != want {
			t.Errorf("masked %s: %s, want %s", doc, got, want)
		}
	}
	for doc, want := range map[string]string{
		string(shown): string(stored),
		`{"card":{"number":"•••","cvc":"2"}}`: `{"card":{"number":4111,"cvc":"2"}}`,
		`{"card":1,"none":"•••"}`:             `{"card":1,"none":"•••"}`,
		`{`:                                   `{`,
	} {
		if got, err := unmask([]byte(doc), stored, hidden); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", doc, got, err, want)
		}
	}
}

// A step * means every item of a list, and the member of that name of an object.
func TestEveryItemOfAListIsMasked(t *testing.T) {
	stored := []byte(`{"to":[{"iban":"A","n":1},{"n":2},{"iban":"B"}],"*":{"iban":"C"},"m":{"*":"D"}}`)
	hidden := []string{"/to/*/iban", "/*/iban", "/m/*", "/none/*/iban"}
	shown := masked(stored, hidden, func(string) string { return Mask })
	if want := `{"to":[{"iban":"•••","n":1},{"n":2},{"iban":"•••"}],"*":{"iban":"•••"},"m":{"*":"•••"}}`; string(shown) != want {
		t.Errorf("masked: %s", shown)
	}
	if got, err := unmask(shown, stored, hidden); err != nil || string(got) != string(stored) {
		t.Errorf("unmasked: %s %v", got, err)
	}
	if got := masked(stored, []string{""}, func(string) string { return Mask }); string(got) != `"•••"` {
		t.Errorf("all of it masked: %s", got)
	}
}

// Items have no names: a mask in a list whose items went, came or changed places could
// stand for another's value, so it is not taken.
func TestAHiddenValueStaysInItsItem(t *testing.T) {
	stored := []byte(`{"items":[{"iban":"A","n":1},{"iban":"B","n":2}]}`)
	hidden := []string{"/items/*/iban"}
	if got, err := unmask([]byte(`{"items":[{"iban":"•••","n":1}, {"iban":"C","n":3}]}`), stored, hidden); err != nil || string(got) != `{"items":[{"iban":"A","n":1}, {"iban":"C","n":3}]}` {
		t.Errorf("%s %v", got, err)
	}
	for _, doc := range []string{
		`{"items":[{"iban":"•••","n":2}]}`,                        // the first was taken out
		`{"items":[{"iban":"•••","n":1}]}`,                        // the last
		`{"items":[{"iban":"•••","n":2},{"iban":"•••","n":1}]}`,   // turned round
		`{"items":[{"iban":"•••","n":1},{"iban":"•••","n":200}]}`, // another amount
	} {
		if got, err := unmask([]byte(doc), stored, hidden); err == nil {
			t.Errorf("%s became %s", doc, got)
		}
	}
}
