package deadletter_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"tollgate/deadletter"
	"tollgate/schemas"
)

// What is hidden is gone, and everything else is byte for byte what it was.
func TestRedactHidesWhatAPointerNamesAndNothingElse(t *testing.T) {
	for _, tc := range []struct{ name, doc, pointers, want string }{
		{"member", `{"z":1, "card":"4111-1111","a":2}`, "/card", `{"z":1, "card":"•••","a":2}`},
		{"nothing there", `{"a":1}`, "/card", `{"a":1}`},
		{"no pointers", `{"a":1}`, "", `{"a":1}`},
		{"below", `{"card":{"number":4111111111111111,"name":"x"}}`, "/card/number", `{"card":{"number":"•••","name":"x"}}`},
		{"whole object", `{"card":{"number":4111},"a":[1]}`, "/card", `{"card":"•••","a":[1]}`},
		{"in a list", `{"items":[{"card":"A1"},{"card":"B2"}]}`, "/items/1/card", `{"items":[{"card":"A1"},{"card":"•••"}]}`},
		{"every item", `{"items":[{"card":"A1"},{"x":1},{"card":"B2"}]}`, "/items/*/card", `{"items":[{"card":"•••"},{"x":1},{"card":"•••"}]}`},
		{"a member called *", `{"*":1,"b":2}`, "/*", `{"*":"•••","b":2}`},
		{"every item of a list at the top", ` [ "a" , "b" ] `, "/*", ` [ "•••" , "•••" ] `},
		{"escapes", `{"a/b":{"m~n":1}}`, "/a~1b/m~0n", `{"a/b":{"m~n":"•••"}}`},
		{"a key written with escapes", "{\"c\\u0061rd\":1}", "/card", "{\"c\\u0061rd\":\"•••\"}"},
		{"twice the same key", `{"card":1,"card":2}`, "/card", `{"card":"•••","card":"•••"}`},
		{"big numbers stay", `{"id":12345678901234567890.10,"e":1E400,"card":1}`, "/card", `{"id":12345678901234567890.10,"e":1E400,"card":"•••"}`},
		{"the whole", `"4111"`, "-", `"•••"`},
		{"no object", `12`, "/card", `12`},
		{"two that overlap", `{"card":{"n":1}}`, "/card/n,/card", `{"card":"•••"}`},
		{"no JSON", `card=4111`, "/card", `"•••"`},
		{"cut off", `{"card":"4111`, "/card", `"•••"`},
		{"more than one value", `{"a":1} {"card":"4111"}`, "/card", `"•••"`},
		{"white space", "{\n  \"card\" : \"x\" ,\n  \"n\": 1.0\n}\n", "/card", "{\n  \"card\" : \"•••\" ,\n  \"n\": 1.0\n}\n"},
		{"empty", ``, "/card", ``},
	} {
		var pointers []string
		switch tc.pointers {
		case "":
		case "-":
			pointers = []string{""}
		default:
			pointers = strings.Split(tc.pointers, ",")
		}
		got, _ := deadletter.Redact([]byte(tc.doc), pointers)
		if string(got) != tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestPlacesAreWhatIsHidden(t *testing.T) {
	got := deadletter.Places([]byte(`{"items":[{"a/b":1},{},{"a/b":[2]}],"*":{"x":1}}`), []string{"/items/*/a~1b", "/*/x", "/none"})
	if want := "/items/0/a~1b /items/2/a~1b /*/x"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if got := deadletter.Places([]byte(`{"card":`), []string{"/card"}); got != nil {
		t.Errorf("of no JSON: %v", got)
	}
}

// What a tool repeats of it is hidden as well, however it is written there.
func TestWhatIsHiddenIsHiddenWhereAToolRepeatsIt(t *testing.T) {
	_, h := deadletter.Redact([]byte(`{"card":{"number":4111111111111111,"holder":"Zoë \"Z\" Doe","pin":"12"},"amount":500}`), []string{"/card"})
	for in, want := range map[string]string{
		"card 4111111111111111 declined for 500": "card ••• declined for 500",
		`holder Zoë "Z" Doe, pin 12`:             `holder •••, pin 12`, // what is very short hides nothing
		`{"holder":"Zoë \"Z\" Doe"}`:             `{"holder":"•••"}`,
	} {
		if got := h.Text(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		`{"number": 4111111111111111,"n":5.0}`:                  `{"number": "•••","n":5.0}`,
		`{"text":"for Zo\u00eb \"Z\" Doe\\","x":["a\"b"]}`:      `{"text":"for •••\\","x":["a\"b"]}`,
		`{"4111111111111111":true}`:                             `{"•••":true}`,
		`"no such thing"`:                                       `"no such thing"`,
		`not JSON 4111111111111111`:                             `"not JSON •••"`,
		`{"id":98765432109876543210,"big":1e999,"k":"\ud83d"} `: `{"id":98765432109876543210,"big":1e999,"k":"\ud83d"} `,
	} {
		if got := h.JSON([]byte(in)); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	wait := int64(3)
	o := &schemas.Outcome{Structured: json.RawMessage(`{"n":4111111111111111}`), Content: []schemas.Content{{Text: "4111111111111111"}},
		Error:    &schemas.Error{Message: "4111111111111111", RetryAfterMS: &wait, LastFailure: &schemas.Error{Message: "no 4111111111111111"}},
		Attempts: []schemas.Attempt{{Message: "4111111111111111 refused"}}}
	before, _ := json.Marshal(o)
	shown, _ := json.Marshal(h.Outcome(o))
	if bytes.Contains(shown, []byte("4111")) {
		t.Errorf("it is shown: %s", shown)
	}
	if after, _ := json.Marshal(o); !bytes.Equal(before, after) {
		t.Error("the outcome itself was changed")
	}
}

// Whatever the arguments are, what comes out is JSON when they were, and never holds the
// value at a pointer.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{`{"card":"4111"}`, `{"card":{"a":[1,{"card":2}]}}`, `[{"card":"x"},[]]`, `{"card":"\ud800\""}`, "{\"card\":\"\xff\"}", `{"card":1}}`, ` "x" `, `{"a":{"card":null},"card":true}`, `{"card":1e1,"card":[]}`} {
		f.Add([]byte(s))
	}
	pointers := []string{"/card", "/*/card", "/a/card"}
	f.Fuzz(func(t *testing.T, doc []byte) {
		shown, h := deadletter.Redact(doc, pointers)
		if len(doc) > 0 && json.Valid(doc) != json.Valid(shown) && !json.Valid(shown) {
			t.Fatalf("%q became %q", doc, shown)
		}
		again, _ := deadletter.Redact(shown, pointers)
		if !bytes.Equal(again, shown) {
			t.Errorf("%q, redacted twice: %q", shown, again)
		}
		var top map[string]json.RawMessage
		if json.Unmarshal(shown, &top) == nil && top["card"] != nil && string(top["card"]) != `"•••"` {
			t.Errorf("%q shows %s", doc, top["card"])
		}
		if out := h.JSON(doc); json.Valid(doc) && !json.Valid(out) {
			t.Errorf("%q became %q", doc, out)
		}
	})
}
