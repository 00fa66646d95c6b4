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
	if len(bytes.TrimSpace(arguments)) == 0 {
		return nil, errors.New("is empty: want one JSON object")
	}
	if !json.Valid(arguments) {
		return nil, syntaxError(arguments)
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('{') {
		return nil, errors.New("want one JSON object")
	}
	return object(d, nil, "", 1)
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

// object canonicalises the members after an opening brace.
func object(d *json.Decoder, out []byte, path string, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("nests deeper than %d", MaxDepth)
	}
	type member struct {
		key   string
		value []byte
	}
	var members []member
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := tok.(string)
		value, err := value(d, nil, path+"/"+key, depth)
		if err != nil {
			return nil, err
		}
		members = append(members, member{key, value})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			if m.key == members[i-1].key {
				return nil, fmt.Errorf("has the key %q more than once", path+"/"+m.key)
			}
			out = append(out, ',')
		}
		out = append(appendString(out, m.key), ':')
		out = append(out, m.value...)
	}
	return append(out, '}'), nil
}

func value(d *json.Decoder, out []byte, path string, depth int) ([]byte, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return object(d, out, path, depth+1)
		}
		return array(d, out, path, depth+1)
	case string:
		return appendString(out, v), nil
	case json.Number:
		return append(out, v...), nil
	case bool:
		return fmt.Appendf(out, "%t", v), nil
	default:
		return append(out, "null"...), nil
	}
}

func array(d *json.Decoder, out []byte, path string, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("nests deeper than %d", MaxDepth)
	}
	out = append(out, '[')
	for i := 0; d.More(); i++ {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = value(d, out, fmt.Sprintf("%s/%d", path, i), depth); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	return append(out, ']'), nil
}

// appendString quotes s with one spelling for each character.
func appendString(out []byte, s string) []byte {
	q, _ := json.Marshal(s) // a string always marshals
	return append(out, q...)
}
