package deadletter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"tollgate/deadletter"
)

// hiding is what a redaction of one value hides.
func hiding(t *testing.T, value string) deadletter.Hidden {
	t.Helper()
	arguments, err := json.Marshal(map[string]string{"card": value})
	if err != nil {
		t.Fatal(err)
	}
	_, h := deadletter.Redact(arguments, []string{"/card"})
	return h
}

// Encoders differ in what they escape, and how.
func TestWhatIsHiddenIsHiddenHoweverJSONWritesIt(t *testing.T) {
	for _, tc := range []struct{ name, value, in, want string }{
		{"HTML", "pa<ss>&word-2", `{"pw":"pa\u003css\u003e\u0026word-2"}`, `{"pw":"•••"}`},
		{"some of it", "pa<ss>&word-2", `pa\u003css>&word-2 pa<ss\u003E&word-2`, `••• •••`},
		{"other letters", "pässwörd-three", `of p\u00e4ssw\u00f6rd-three, p\u00E4sswörd-three`, `of •••, •••`},
		{"a letter that needs none", "pass-4", `\u0070as\u0073-4`, `•••`},
		{"slash", "a/b/c", `"a\/b/c"`, `"•••"`},
		{"surrogates", "key😀end", `key\ud83d\ude00end key\uD83D\uDE00end key\ud83dend`, `••• ••• key\ud83dend`},
		{"quotes and lines", "a\"b\\c\nd\te", `{"x":"a\"b\\c\nd\u0009e"}`, `{"x":"•••"}`},
		{"backslashes as they are, and another escaped", `p\n\n<x`, `p\n\\n\u003cx`, `•••`},
		{"JSON in JSON", "pa<ss\"w", `{"e":"{\"pw\":\"pa\\u003css\\\"w\"}"}`, `{"e":"{\"pw\":\"•••\"}"}`},
		{"a backslash in JSON in JSON", `a\bcd`, `"{\"x\":\"a\\\\bcd\"}"`, `"{\"x\":\"•••\"}"`},
		{"a number", "41111111", `\u00341111111`, `•••`},
		{"half a character", "ab\ufffdcd", `ab\ud800cd`, `•••`},
		{"an escape before it", "name", `C:\name`, `C:\•••`},
		{"other text", "pa<ss>", `pa\u003ess> pa\u003 pa\u003css pa\`, `pa\u003ess> pa\u003 pa\u003css pa\`},
	} {
		if got := hiding(t, tc.value).Text(tc.in); got != tc.want {
			t.Errorf("%s: %s became %s, want %s", tc.name, tc.in, got, tc.want)
		}
	}
}

// The time is the text's length, whatever the tool says: the product of the two lengths
// would be minutes.
func TestHidingTakesNoLonger(t *testing.T) {
	for name, tc := range map[string]struct{ value, in string }{
		"equal characters":  {strings.Repeat("a", 50_000) + "b", strings.Repeat("a", 100_000) + `\n`},
		"backslashes":       {strings.Repeat(`\`, 5_000) + "b", strings.Repeat(`\`, 100_000)},
		"escapes":           {strings.Repeat("<", 5_000) + "b", strings.Repeat(`\u003c`, 20_000)},
		"backslashes, text": {"password", strings.Repeat(`\`, 100_000)},
	} {
		h := hiding(t, tc.value)
		began := time.Now()
		h.Text(tc.in)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: %s", name, took)
		}
	}
}

// FuzzRepeated writes a value with escapes that the second text chooses.
func FuzzRepeated(f *testing.F) {
	f.Add("pa<ss>&word", []byte{1, 2, 3, 0, 1, 2, 3})
	f.Add("p\\\\\\n\"😀\n/", []byte{0, 1, 2, 3, 1, 0, 2})
	f.Add(`\u003c\u0075`, []byte{3, 0, 2, 1})
	f.Fuzz(func(t *testing.T, value string, ways []byte) {
		value = strings.ToValidUTF8(value, "?")
		if len(value) < 4 || len(value) > 1000 || len(ways) == 0 || strings.ContainsAny(value, "[]\u2022") {
			return
		}
		var in strings.Builder
		backslashes, most := 0, 0
		for i, r := range []rune(value) {
			in.WriteString(written(r, ways[i%len(ways)]))
			if backslashes++; r != '\\' {
				backslashes = 0
			}
			most = max(most, backslashes)
		}
		if most > 4 { // of many in a row not every mixture is read
			return
		}
		if got := hiding(t, value).Text("[" + in.String() + "]"); got != "[•••]" && got != "•••" {
			t.Errorf("%q as %q became %q", value, in.String(), got)
		}
	})
}

// written is a character in one of the ways JSON has for it.
func written(r rune, way byte) string {
	short, _ := json.Marshal(string(r))
	switch {
	case way%4 == 0:
		return string(r)
	case way%4 == 1:
		return string(short[1 : len(short)-1])
	case r == '/' && way%4 == 2:
		return `\/`
	}
	out := ""
	for _, u := range utf16.Encode([]rune{r}) {
		out += fmt.Sprintf(map[bool]string{true: `\u%04x`, false: `\u%04X`}[way%4 == 2], u)
	}
	return out
}
