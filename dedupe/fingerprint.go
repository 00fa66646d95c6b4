package dedupe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxDepth bounds the nesting of arguments.
const MaxDepth = 64

// Fingerprint is SHA-256, in hex, over the canonical form of a JSON object: keys
// sorted by bytes, no insignificant white space, escapes decoded, number literals
// as written. (RFC 8785 normalises numbers through float64 and so makes two
// different payments equal.) Anything but one object without duplicate keys is an
// error that says where.
func Fingerprint(arguments []byte) (string, error) {
	canonical, err := Canonical(arguments)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Canonical returns the canonical form that [Fingerprint] hashes.
func Canonical(arguments []byte) ([]byte, error) {
	doc := bytes.Trim(arguments, " \t\r\n")
	switch {
	case len(doc) == 0:
		return nil, errors.New("is empty: want one JSON object")
	case !json.Valid(doc):
		return nil, syntaxError(arguments)
	case doc[0] != '{':
		return nil, errors.New("want one JSON object")
	case !utf8.Valid(doc): // decoded, all that is broken looks alike
		return nil, errors.New("is not UTF-8")
	}
	w := walk{in: doc}
	return w.value(make([]byte, 0, len(doc)))
}

func syntaxError(arguments []byte) error {
	var v any
	err := json.Unmarshal(arguments, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("is not JSON: %w at byte %d", err, syntax.Offset)
	}
	return fmt.Errorf("is not JSON: %w", errors.Join(err, io.ErrUnexpectedEOF))
}

// walk writes valid JSON in canonical form. A token decoder would do the same for
// an allocation a token, and this is done to every call.
type walk struct {
	in   []byte
	at   int
	path []step // to where it is, for errors
	last []byte // the last string, as in the document, without its quotes
}

// step is a key, or an index in an array.
type step struct {
	key   []byte // as in the document, without its quotes
	index int
}

func (w *walk) where() string {
	var b []byte
	for _, s := range w.path {
		b = append(b, '/')
		if s.key == nil {
			b = strconv.AppendInt(b, int64(s.index), 10)
		} else {
			b = append(b, decoded(s.key)...)
		}
	}
	return string(b)
}

// next skips white space, commas and colons, which are where the grammar has them,
// and returns the byte that follows.
func (w *walk) next() byte {
	for {
		switch c := w.in[w.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			w.at++
		default:
			return c
		}
	}
}

func (w *walk) value(out []byte) ([]byte, error) {
	switch w.next() {
	case '{', '[':
		if len(w.path) >= MaxDepth {
			return nil, fmt.Errorf("nests deeper than %d", MaxDepth)
		}
		if w.in[w.at] == '{' {
			return w.object(out)
		}
		return w.array(out)
	case '"':
		return w.string(out)
	}
	from := w.at // a number, or one of the three words
	for w.at < len(w.in) && !bytes.ContainsRune([]byte(" \t\n\r,:]}"), rune(w.in[w.at])) {
		w.at++
	}
	return append(out, w.in[from:w.at]...), nil
}

// string reads a string and writes it with one spelling for each character.
func (w *walk) string(out []byte) ([]byte, error) {
	from := w.at + 1
	for w.at = from; w.in[w.at] != '"'; w.at++ {
		if w.in[w.at] == '\\' {
			w.at++
		}
	}
	w.last = w.in[from:w.at]
	w.at++
	if plain(w.last) {
		return append(append(append(out, '"'), w.last...), '"'), nil
	}
	if halved(w.last) {
		return nil, fmt.Errorf("has half a character, a surrogate without its other, in %q", w.where())
	}
	q, _ := json.Marshal(string(decoded(w.last))) // a string always marshals
	return append(out, q...), nil
}

func (w *walk) array(out []byte) ([]byte, error) {
	w.at++
	out = append(out, '[')
	w.path = append(w.path, step{})
	for i := 0; w.next() != ']'; i++ {
		if i > 0 {
			out = append(out, ',')
		}
		w.path[len(w.path)-1].index = i
		var err error
		if out, err = w.value(out); err != nil {
			return nil, err
		}
	}
	w.at++
	w.path = w.path[:len(w.path)-1]
	return append(out, ']'), nil
}

// member is a key of an object, decoded, and where it stands in the output.
type member struct {
	key      []byte
	from, to int
}

// object writes the members as they come and, where that is not their order, puts
// them into it afterwards.
func (w *walk) object(out []byte) ([]byte, error) {
	w.at++
	out = append(out, '{')
	body := len(out)
	var few [8]member
	members := few[:0]
	w.path = append(w.path, step{})
	for w.next() != '}' {
		m := member{from: len(out)}
		w.path[len(w.path)-1].key = []byte{} // not known yet
		var err error
		if out, err = w.string(out); err != nil {
			return nil, err
		}
		w.path[len(w.path)-1].key = w.last
		m.key = decoded(w.last)
		if out, err = w.value(append(out, ':')); err != nil {
			return nil, err
		}
		m.to = len(out)
		out = append(out, ',')
		members = append(members, m)
	}
	w.at++
	w.path = w.path[:len(w.path)-1]
	if len(members) == 0 {
		return append(out, '}'), nil
	}
	byKey := func(a, b member) int { return bytes.Compare(a.key, b.key) }
	if !slices.IsSortedFunc(members, byKey) {
		as := bytes.Clone(out[body:])
		out = out[:body]
		slices.SortFunc(members, byKey)
		for _, m := range members {
			out = append(append(out, as[m.from-body:m.to-body]...), ',')
		}
	}
	for i, m := range members[1:] {
		if bytes.Equal(m.key, members[i].key) {
			return nil, fmt.Errorf("has the key %q more than once", w.where()+"/"+string(m.key))
		}
	}
	out[len(out)-1] = '}'
	return out, nil
}
