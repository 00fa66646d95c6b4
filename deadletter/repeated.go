package deadletter

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// mostReadings bounds in how many ways a row of backslashes is read.
	mostReadings = 16
	// mostBackslashes stand before a character that JSON in JSON in JSON in JSON escapes.
	mostBackslashes = 15
	// mostSteps is what one byte of a text may cost. It takes a text and a value of many
	// equal characters to get there.
	mostSteps = 16
)

// withoutRepeats masks a value wherever it stands in a text: as it is, or with any of
// its characters written as JSON may write them. Tools repeat what they were given
// inside JSON of their own, and encoders differ in what they escape. A text that would
// take too long to search is masked whole.
func withoutRepeats(text, value string) string {
	if !strings.Contains(text, `\`) { // nothing is escaped
		return strings.ReplaceAll(text, value, Mask)
	}
	runes, begin := []rune(value), value[0]
	steps := mostSteps * len(text)
	var out strings.Builder
	copied := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' && text[i] != begin {
			continue
		}
		end, took := repeatEnd(text, i, runes)
		if steps -= took; steps < 0 {
			return Mask
		}
		if end > 0 {
			out.WriteString(text[copied:i])
			out.WriteString(Mask)
			copied, i = end, end-1
		}
	}
	out.WriteString(text[copied:])
	return out.String()
}

// repeatEnd is where a value ends that begins at a place of a text, or 0, and how long
// it took to see that. Only a backslash can be read in more than one way: as itself, or
// as the begin of an escape.
func repeatEnd(text string, at int, value []rune) (end, steps int) {
	ends, next := []int{at}, []int(nil)
	for _, r := range value {
		next = next[:0]
		for _, i := range ends {
			next = readings(next, text, i, r)
		}
		if steps += len(ends); len(next) == 0 {
			return 0, steps
		}
		slices.Sort(next)
		if next = slices.Compact(next); len(next) > mostReadings {
			next = slices.Delete(next, mostReadings/2, len(next)-mostReadings/2) // all as they are, and all escaped, stay
		}
		ends, next = next, ends
	}
	return ends[len(ends)-1], steps
}

// readings appends where a text goes on behind a character that stands at i in one way
// or another. In JSON that stands in JSON, the backslash is escaped again.
func readings(ends []int, text string, i int, want rune) []int {
	rest := text[i:]
	if r, n := utf8.DecodeRuneInString(rest); n > 0 && r == want {
		ends = append(ends, i+n)
	}
	backslashes := leading(rest)
	if backslashes == 0 {
		return ends
	}
	if want == '\\' {
		for n := 2; n <= min(4, backslashes); n += 2 {
			ends = append(ends, i+n)
		}
	}
	if r, n := unescape(rest[backslashes:]); n > 0 && r == want {
		ends = append(ends, i+backslashes+n)
	}
	return ends
}

// leading counts the backslashes at the begin of a text.
func leading(s string) int {
	n := 0
	for n < min(len(s), mostBackslashes) && s[n] == '\\' {
		n++
	}
	return n
}

// unescape reads what stands behind the backslash of an escape, and how long it is.
func unescape(s string) (rune, int) {
	if s == "" {
		return 0, 0
	}
	if i := strings.IndexByte(`"/bfnrt`, s[0]); i >= 0 {
		return rune("\"/\b\f\n\r\t"[i]), 1
	}
	r, n := unescapeU(s)
	if n == 0 || !utf16.IsSurrogate(r) {
		return r, n
	}
	low := s[n+leading(s[n:]):]
	if l, m := unescapeU(low); m > 0 && len(low) < len(s)-n {
		if both := utf16.DecodeRune(r, l); both != utf8.RuneError {
			return both, len(s) - len(low) + m
		}
	}
	return utf8.RuneError, n // half a character, as a decoder reads it
}

func unescapeU(s string) (rune, int) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, 0
	}
	r, err := strconv.ParseUint(s[1:5], 16, 32)
	if err != nil {
		return 0, 0
	}
	return rune(r), 5
}
