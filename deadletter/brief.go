package deadletter

import (
	"encoding/json"
	"time"

	"tollgate/schemas"
)

// briefOutcome is as much of an outcome as a list shows.
type briefOutcome struct {
	V      int
	Lane   schemas.Lane
	Error  *schemas.Error
	Timing struct {
		Deadline time.Time `json:"deadline"`
	}
}

// readBrief reads it out of an outcome. What costs the most, attempts and results, is
// stepped over, not read: an index is made of a hundred thousand of these. It reports
// whether this is an outcome.
func readBrief(text string) (o briefOutcome, ok bool) {
	err := members(text, func(name, value string) error {
		switch name {
		case "v":
			return json.Unmarshal([]byte(value), &o.V)
		case "lane":
			return json.Unmarshal([]byte(value), &o.Lane)
		case "error":
			return json.Unmarshal([]byte(value), &o.Error)
		case "timing":
			return json.Unmarshal([]byte(value), &o.Timing)
		}
		return nil
	})
	return o, err && o.V != 0
}

// members calls f with the members of a JSON object, values as they are written. It
// checks no more than it needs to find their ends, and reports false when it cannot
// or when f fails.
func members(text string, f func(name, value string) error) bool {
	i := space(text, 0)
	if i >= len(text) || text[i] != '{' {
		return false
	}
	i = space(text, i+1)
	if i < len(text) && text[i] == '}' {
		return true
	}
	for i < len(text) {
		end := valueEnd(text, i)
		if text[i] != '"' || end < 0 {
			return false
		}
		name := text[i+1 : end-1]
		if i = space(text, end); i >= len(text) || text[i] != ':' {
			return false
		}
		i = space(text, i+1)
		if end = valueEnd(text, i); end < 0 || f(name, text[i:end]) != nil {
			return false
		}
		if i = space(text, end); i < len(text) && text[i] == '}' {
			return true
		}
		if i >= len(text) || text[i] != ',' {
			return false
		}
		i = space(text, i+1)
	}
	return false
}

func space(text string, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// valueEnd is where the value ends that begins at i, or -1.
func valueEnd(text string, i int) int {
	depth, start := 0, i
	for i < len(text) {
		switch text[i] {
		case '"':
			if i = stringEnd(text, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 { // the end of what is around a number or a word
				return past(start, i)
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return past(start, i)
			}
		}
		i++
	}
	return -1
}

func past(start, end int) int {
	if end == start {
		return -1
	}
	return end
}

// stringEnd is where the string ends that begins at i, or -1.
func stringEnd(text string, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
