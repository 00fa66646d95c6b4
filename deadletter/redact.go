package deadletter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"tollgate/schemas"
)

// Hidden is what a redaction has taken out of arguments: the same must not be shown
// where a tool has repeated it. The zero value hides nothing.
type Hidden struct{ values []string }

// leastHidden is how long a text has to be to be looked for elsewhere: what is very
// short would blot out half of every message, and hides nothing.
const leastHidden = 4

// Redact returns arguments for display, with the values at JSON pointers hidden, and
// what was hidden. A step * takes every item of a list. Everything else stays byte for
// byte what it was: numbers, the order of keys, and white space.
//
// Arguments that are not one JSON value are hidden whole, since nobody can tell where
// in them such a value stands.
func Redact(arguments []byte, pointers []string) ([]byte, Hidden) {
	if len(pointers) == 0 || len(arguments) == 0 {
		return arguments, Hidden{}
	}
	m, err := goThrough(arguments, pointers)
	if err != nil {
		return mustQuote(Mask), Hidden{}
	}
	m.out = append(m.out, arguments[m.copied:]...)
	slices.SortFunc(m.hidden.values, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) }) // the longest first: one may contain another
	m.hidden.values = slices.Compact(m.hidden.values)
	return m.out, m.hidden
}

// Places are the pointers to what these pointers hide of a document: one for each item
// that a * takes. Of what is no JSON there are none.
func Places(doc []byte, pointers []string) []string {
	m, err := goThrough(doc, pointers)
	if err != nil {
		return nil
	}
	return m.places
}

func goThrough(doc []byte, pointers []string) (*masker, error) {
	m := &masker{d: json.NewDecoder(bytes.NewReader(doc)), doc: doc}
	m.d.UseNumber()
	paths := make([][]string, len(pointers))
	for i, p := range pointers {
		paths[i] = steps(p)
	}
	err := m.value(paths, "")
	if err == nil {
		if _, end := m.d.Token(); end != io.EOF { // More is false before a bracket too many
			err = errNotOne
		}
	}
	return m, err
}

var errNotOne = errors.New("more than one JSON value")

// steps are the names a JSON pointer leads through; none is the whole document.
func steps(pointer string) []string {
	if pointer == "" {
		return nil
	}
	names := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return names
}

// masker goes through a document once and copies all but what is hidden.
type masker struct {
	d      *json.Decoder
	doc    []byte
	out    []byte
	copied int // how much of doc is in out, or stands hidden
	hidden Hidden
	places []string // what was hidden, as pointers
}

// value goes through the next value, which a pointer leads to and of which the parts at
// these paths are hidden.
func (m *masker) value(paths [][]string, pointer string) error {
	if len(paths) == 0 || slices.ContainsFunc(paths, func(p []string) bool { return len(p) == 0 }) {
		var raw json.RawMessage
		if err := m.d.Decode(&raw); err != nil || len(paths) == 0 {
			return err
		}
		m.hide(raw, int(m.d.InputOffset()))
		m.places = append(m.places, pointer)
		return nil
	}
	open, err := m.d.Token()
	list := open == json.Delim('[')
	if err != nil || !list && open != json.Delim('{') {
		return err
	}
	for i := 0; m.d.More(); i++ {
		name := strconv.Itoa(i)
		if !list {
			key, err := m.d.Token()
			if err != nil {
				return err
			}
			name, _ = key.(string) // the decoder takes nothing else for a key
		}
		var below [][]string
		for _, p := range paths {
			if p[0] == name || list && p[0] == "*" {
				below = append(below, p[1:])
			}
		}
		if err := m.value(below, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)); err != nil {
			return err
		}
	}
	_, err = m.d.Token()
	return err
}

func (m *masker) hide(raw []byte, end int) {
	m.out = append(append(m.out, m.doc[m.copied:end-len(raw)]...), mustQuote(Mask)...)
	m.copied = end
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) == nil {
		m.hidden.collect(v)
	}
}

// collect remembers every text and number in a value.
func (h *Hidden) collect(v any) {
	switch x := v.(type) {
	case map[string]any:
		for _, item := range x {
			h.collect(item)
		}
	case []any:
		for _, item := range x {
			h.collect(item)
		}
	case string:
		h.add(x)
	case json.Number:
		h.add(x.String())
	}
}

func (h *Hidden) add(text string) {
	if len(text) >= leastHidden {
		h.values = append(h.values, text)
	}
}

// Text returns a text with what is hidden taken out, however JSON may have written it.
func (h Hidden) Text(text string) string {
	for _, v := range h.values {
		text = withoutRepeats(text, v)
	}
	return text
}

// JSON returns a document with what is hidden taken out of its texts, keys and numbers.
// What is no JSON is a text.
func (h Hidden) JSON(doc []byte) []byte {
	if len(h.values) == 0 || len(doc) == 0 {
		return doc
	}
	var out []byte
	copied := 0
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			if int(d.InputOffset()) < len(bytes.TrimRight(doc, " \t\r\n")) {
				return mustQuote(h.Text(string(doc)))
			}
			return append(out, doc[copied:]...)
		}
		var was string
		switch x := token.(type) {
		case string:
			was = x
		case json.Number:
			was = x.String()
		}
		if now := h.Text(was); now != was {
			end := int(d.InputOffset())
			begin := tokenStart(doc[copied:end], token) + copied
			out = append(append(out, doc[copied:begin]...), mustQuote(now)...)
			copied = end
		}
	}
}

// tokenStart is where the last token of a part of a document begins.
func tokenStart(part []byte, token json.Token) int {
	if n, is := token.(json.Number); is {
		return len(part) - len(n)
	}
	for i := len(part) - 2; ; i-- { // back from the closing quote to the one that no odd number of \ precedes
		if part[i] != '"' {
			continue
		}
		escapes := 0
		for escapes < i && part[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

func mustQuote(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic("deadletter: " + err.Error()) // a string always marshals
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Outcome returns a copy of an outcome with what is hidden taken out of the result and
// of everything that the tool has said.
func (h Hidden) Outcome(o *schemas.Outcome) *schemas.Outcome {
	if o == nil || len(h.values) == 0 {
		return o
	}
	shown := *o
	shown.Structured = h.JSON(o.Structured)
	shown.Content = slices.Clone(o.Content)
	for i := range shown.Content {
		shown.Content[i].Text = h.Text(shown.Content[i].Text)
	}
	shown.Error = h.error(o.Error)
	shown.Attempts = h.Attempts(o.Attempts)
	return &shown
}

func (h Hidden) error(e *schemas.Error) *schemas.Error {
	if e == nil {
		return nil
	}
	shown := *e
	shown.Message = h.Text(e.Message)
	shown.LastFailure = h.error(e.LastFailure)
	return &shown
}

// Attempts returns a copy of attempts with what is hidden taken out.
func (h Hidden) Attempts(list []schemas.Attempt) []schemas.Attempt {
	shown := slices.Clone(list)
	for i := range shown {
		shown[i].Message = h.Text(shown[i].Message)
		shown[i].Decision = h.Text(shown[i].Decision)
	}
	return shown
}
