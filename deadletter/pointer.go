package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tollgate/dedupe"
)

// Mask stands for a value that is hidden at display.
const Mask = "•••"

// Assignment puts a value at a place of a JSON document, named by a JSON pointer.
type Assignment struct {
	Pointer string          `json:"pointer"`
	Value   json.RawMessage `json:"value"`
}

// errAbsent is wrapped when a pointer leads nowhere.
var errAbsent = errors.New("is not there")

// assign returns the document with the value in its place. Everything else stays byte
// for byte what it was: a decoded number would come back as another.
func assign(doc []byte, a Assignment) ([]byte, error) {
	if !json.Valid(a.Value) {
		return nil, fmt.Errorf("the value for %s is not JSON", a.Pointer)
	}
	p, err := find(doc, a.Pointer)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(doc)+len(p.lead)+len(a.Value))
	out = append(append(out, doc[:p.from]...), p.lead...)
	return append(append(out, a.Value...), doc[p.to:]...), nil
}

// lookUp returns the value at a pointer, and whether there is one.
func lookUp(doc []byte, pointer string) ([]byte, bool) {
	p, err := find(doc, pointer)
	return doc[p.from:p.to], err == nil && p.to > p.from
}

// masked returns arguments with the values at some pointers hidden. What is no arguments
// is hidden whole: nobody can tell where in it such a value stands.
func masked(doc []byte, pointers []string, mask func(pointer string) string) []byte {
	if len(pointers) == 0 || len(doc) == 0 {
		return doc
	}
	whole := []byte(strconv.Quote(Mask))
	if _, err := dedupe.Canonical(doc); err != nil {
		return whole
	}
	out := doc
	for _, p := range Places(doc, pointers) {
		if _, there := lookUp(out, p); !there {
			continue
		}
		hidden, err := json.Marshal(mask(p))
		if err == nil {
			out, err = assign(out, Assignment{p, hidden})
		}
		if err != nil {
			return whole
		}
	}
	return out
}

// unmask puts the stored values back in the place of the masks that stand for them. In an
// item of a list it does so only while the list is as long as it was and the item says
// what it said: items have no names, and a hidden value must not get into another.
func unmask(doc, stored []byte, pointers []string) ([]byte, error) {
	given, shown := doc, masked(stored, pointers, func(string) string { return Mask })
	for _, pointer := range pointers {
		for _, p := range Places(doc, []string{pointer}) {
			var text string
			now, _ := lookUp(doc, p)
			was, there := lookUp(stored, p)
			if json.Unmarshal(now, &text) != nil || text != Mask || !there {
				continue
			}
			if list, item := itemOf(pointer, p); item != "" && (!alike(given, shown, item) || length(given, list) != length(shown, list)) {
				return nil, fmt.Errorf("%s hides a value in a list that has changed, and nobody can tell which item's it is: write the value itself", p)
			}
			var err error
			if doc, err = assign(doc, Assignment{p, was}); err != nil {
				return nil, err
			}
		}
	}
	return doc, nil
}

// itemOf is the outermost list that a pointer's * goes through on its way to a place, and
// the item of it; "" without one.
func itemOf(pointer, place string) (list, item string) {
	names, there := strings.Split(pointer, "/"), strings.Split(place, "/")
	i := slices.Index(names, "*")
	if i < 0 || i >= len(there) {
		return "", ""
	}
	return strings.Join(there[:i], "/"), strings.Join(there[:i+1], "/")
}

// alike reports whether two documents have the same value at a pointer, however it is laid out.
func alike(a, b []byte, pointer string) bool {
	var one, other bytes.Buffer
	at, inA := lookUp(a, pointer)
	as, inB := lookUp(b, pointer)
	return inA && inB && json.Compact(&one, at) == nil && json.Compact(&other, as) == nil && bytes.Equal(one.Bytes(), other.Bytes())
}

// length is of the list at a pointer; -1 for what is none.
func length(doc []byte, pointer string) int {
	var items []json.RawMessage
	if at, ok := lookUp(doc, pointer); !ok || json.Unmarshal(at, &items) != nil {
		return -1
	}
	return len(items)
}

// place is where a value stands in a document; with from equal to to, where it would,
// after lead.
type place struct {
	from, to int
	lead     string
}

// find walks to what a pointer names; the empty one names everything. Only the last step may lead to something new: a
// member of an object, or the end of a list.
func find(doc []byte, pointer string) (place, error) {
	if pointer == "" {
		return place{to: len(doc)}, nil
	}
	if !strings.HasPrefix(pointer, "/") {
		return place{}, fmt.Errorf("%q is not a JSON pointer to a part of the arguments (such as /items/0/amount)", pointer)
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	steps := strings.Split(pointer[1:], "/")
	for i, step := range steps {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		open, err := d.Token()
		if err != nil {
			return place{}, fmt.Errorf("the arguments: %w", err)
		}
		there, lead, err := enterValue(d, open, step)
		if err == nil && !there && i < len(steps)-1 {
			err = errAbsent
		}
		if err != nil {
			return place{}, fmt.Errorf("/%s: %w", strings.Join(steps[:i+1], "/"), err)
		}
		if !there {
			_, err := d.Token() // the end of the object or list
			at := int(d.InputOffset()) - 1
			return place{at, at, lead}, err
		}
	}
	var value json.RawMessage
	err := d.Decode(&value)
	to := int(d.InputOffset())
	return place{from: to - len(value), to: to}, err
}

// enterValue goes forward to a member of the object or list that was opened. Where
// there is none, lead is what a new one comes after.
func enterValue(d *json.Decoder, open json.Token, step string) (there bool, lead string, err error) {
	var skipped json.RawMessage
	n := 0
	switch open {
	case json.Delim('{'):
		for ; d.More(); n++ {
			key, err := d.Token()
			if err != nil || key == step {
				return err == nil, "", err
			}
			if err := d.Decode(&skipped); err != nil {
				return false, "", err
			}
		}
		name, _ := json.Marshal(step) // a string always marshals
		lead = string(name) + ":"
	case json.Delim('['):
		at, convErr := strconv.Atoi(step)
		if step != "-" && (convErr != nil || strconv.Itoa(at) != step || at < 0) {
			return false, "", fmt.Errorf("is in a list: want a number from 0, or - for its end")
		}
		for ; d.More(); n++ {
			if step != "-" && n == at {
				return true, "", nil
			}
			if err := d.Decode(&skipped); err != nil {
				return false, "", err
			}
		}
		if step != "-" && n != at {
			return false, "", fmt.Errorf("%w: the list has %d values", errAbsent, n)
		}
	default:
		return false, "", errors.New("is in neither an object nor a list")
	}
	if n > 0 {
		lead = "," + lead
	}
	return false, lead, nil
}
