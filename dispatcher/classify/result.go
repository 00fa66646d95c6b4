package classify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"tollgate/schemas"
)

// maxExplanation bounds what a model gets to read of a failed answer.
const maxExplanation = 16 << 10

// Result is a success made of a body. JSON is kept byte for byte, beside one text
// block with the same; anything else is text. Bytes that are not UTF-8 are replaced,
// and a second block says so and names the original by its hash.
func Result(body []byte) Verdict {
	if len(bytes.TrimSpace(body)) == 0 {
		return Success(nil, nil)
	}
	if utf8.Valid(body) {
		content := []schemas.Content{text(string(body))}
		if json.Valid(body) {
			return Success(content, json.RawMessage(bytes.Clone(body)))
		}
		return Success(content, nil)
	}
	sum := sha256.Sum256(body)
	return Success([]schemas.Content{
		text(strings.ToValidUTF8(string(body), "\uFFFD")),
		text(fmt.Sprintf("[the result was not valid UTF-8 and was changed: %d bytes, SHA-256 %s]", len(body), hex.EncodeToString(sum[:]))),
	}, nil)
}

// Oversize describes a result that was not kept.
type Oversize struct {
	Limit int64
	Size  int64    // bytes seen
	Whole bool     // Size and Sum are of the whole result, not of its beginning
	Sum   [32]byte // SHA-256 of those bytes
}

// TooLarge says that the tool answered, with more than can be given on. It is never
// repeated: the work is done, and would only give the same again.
func TooLarge(o Oversize) Verdict {
	size := fmt.Sprintf("%d bytes", o.Size)
	if !o.Whole {
		size = fmt.Sprintf("at least %d bytes (the hash is of these)", o.Size)
	}
	return Refused(Answered, schemas.CodeResultTooLarge, fmt.Sprintf(
		"the result has %s, more than the limit of %d; SHA-256 %s; let the tool return less, or a reference",
		size, o.Limit, hex.EncodeToString(o.Sum[:])))
}

// explain is what a model reads of a failed answer: bounded, valid UTF-8.
func explain(body []byte) []schemas.Content {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil
	}
	return []schemas.Content{text(clip(string(body), maxExplanation))}
}

func text(s string) schemas.Content { return schemas.Content{Type: "text", Text: s} }

// clip makes s valid UTF-8 of about max bytes and marks what was cut.
func clip(s string, max int) string {
	cut := len(s) > max
	if cut {
		s = s[:max]
		for i := 0; i < utf8.UTFMax-1 && !utf8.ValidString(s) && len(s) > 0; i++ {
			if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if cut {
		s += " [cut]"
	}
	return s
}

// lookup follows a JSON pointer (RFC 6901) into body. It reports whether something
// other than null is there: false, 0 and "" count as set.
func lookup(body []byte, pointer string) (json.RawMessage, bool) {
	if pointer == "" || pointer[0] != '/' || !json.Valid(body) {
		return nil, false
	}
	at := json.RawMessage(body)
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		var ok bool
		if at, ok = member(at, token); !ok {
			return nil, false
		}
	}
	return at, string(bytes.TrimSpace(at)) != "null"
}

func member(at json.RawMessage, token string) (json.RawMessage, bool) {
	trimmed := bytes.TrimSpace(at)
	if len(trimmed) == 0 {
		return nil, false
	}
	switch trimmed[0] {
	case '{':
		var object map[string]json.RawMessage
		if json.Unmarshal(trimmed, &object) != nil {
			return nil, false
		}
		v, ok := object[token]
		return v, ok
	case '[':
		var list []json.RawMessage
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || token != strconv.Itoa(i) || json.Unmarshal(trimmed, &list) != nil || i >= len(list) {
			return nil, false
		}
		return list[i], true
	}
	return nil, false
}

// Pointer returns the value that a JSON pointer names in a document, if there is
// one that is not null.
func Pointer(document []byte, pointer string) (json.RawMessage, bool) {
	return lookup(document, pointer)
}
