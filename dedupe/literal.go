package dedupe

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// plain reports whether a string's bytes in the document are what it means, and
// also how it is written: nothing is escaped, and nothing has to be.
func plain(raw []byte) bool {
	for _, c := range raw {
		if c < ' ' || c >= 0x7f || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// decoded is what a string means.
func decoded(raw []byte) []byte {
	if plain(raw) {
		return raw
	}
	var s string
	_ = json.Unmarshal(quoted(raw), &s) // the document is valid
	return []byte(s)
}

// halved reports whether a string has an escaped surrogate that is not one of a pair.
// Decoded, all of those are the same replacement character: other arguments would
// have the same fingerprint.
func halved(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		first := escape(raw[i+1:])
		if i += 4; !utf16.IsSurrogate(first) {
			continue
		}
		rest := raw[i+1:]
		if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' || utf16.DecodeRune(first, escape(rest[2:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escape reads the four digits of an escape in valid JSON.
func escape(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 16)
	return rune(n)
}

func quoted(raw []byte) []byte { return append(append([]byte{'"'}, raw...), '"') }
