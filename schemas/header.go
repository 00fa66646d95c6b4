package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Headers an agent sets on a request.
const (
	HeaderRun            = "Tollgate-Run-Id"
	HeaderKey            = "Idempotency-Key"
	HeaderDeadline       = "Tollgate-Deadline"
	HeaderVersion        = "Tollgate-Version"
	HeaderRunAttempts    = "Tollgate-Run-Attempts"
	HeaderRunSideEffects = "Tollgate-Run-Side-Effects"
	HeaderRunDeadline    = "Tollgate-Run-Deadline"
	HeaderPolicy         = "Tollgate-Policy"
	HeaderToolCallID     = "Tollgate-Tool-Call-Id"
	HeaderTraceParent    = "traceparent"
	HeaderTraceState     = "tracestate"
	HeaderReplayOf       = "Tollgate-Replay-Of" // the dead letter that an operator has edited into this call; believed only when that letter's record says so too
)

// Headers only the dispatcher writes. From an agent they are stripped.
const (
	HeaderCall             = "Tollgate-Call"
	HeaderAttempt          = "Tollgate-Attempt"
	HeaderGeneration       = "Tollgate-Generation"
	HeaderSpentAttempts    = "Tollgate-Run-Attempts-Spent"
	HeaderSpentSideEffects = "Tollgate-Run-Side-Effects-Spent"
	HeaderLastCode         = "Tollgate-Last-Code"
	HeaderToken            = "Tollgate-Token"
	HeaderOwes             = "Tollgate-Owes-Token"
	HeaderOutcome          = "Tollgate-Outcome"
	HeaderReason           = "Tollgate-Reason"
	HeaderFingerprint      = "Tollgate-Error-Fingerprint"
	HeaderOriginStream     = "Tollgate-Origin-Stream"
	HeaderOriginSubject    = "Tollgate-Origin-Subject"
	HeaderOriginSequence   = "Tollgate-Origin-Sequence"
	HeaderFirstSeen        = "Tollgate-First-Seen"
	HeaderDiedAt           = "Tollgate-Died-At"
	HeaderLetter           = "Tollgate-Letter"
	HeaderReplay           = "Tollgate-Replay" // of a letter: the bulk replay that it died of again
)

// HeaderMessageID is JetStream's publish deduplication header.
const HeaderMessageID = "Nats-Msg-Id"

// HeaderServiceError and HeaderServiceErrorCode mark a failed reply the way
// every NATS micro client understands it.
const (
	HeaderServiceError     = "Nats-Service-Error"
	HeaderServiceErrorCode = "Nats-Service-Error-Code"
)

var owned = []string{
	HeaderCall, HeaderAttempt, HeaderGeneration, HeaderSpentAttempts, HeaderSpentSideEffects,
	HeaderLastCode, HeaderToken, HeaderOwes, HeaderOutcome, HeaderReason, HeaderFingerprint,
	HeaderOriginStream, HeaderOriginSubject, HeaderOriginSequence, HeaderFirstSeen, HeaderDiedAt, HeaderLetter, HeaderReplay,
}

// Header holds message headers. It has the shape of nats.Header and converts to
// and from it without a copy.
type Header map[string][]string

var errRepeated = errors.New("appears more than once")

// Lookup finds name by its exact spelling first and then without regard to case.
// It returns all values of the spelling found; spellings that differ only in case
// count as the same header given more than once.
func (h Header) Lookup(name string) []string {
	if v, ok := h[name]; ok {
		return v
	}
	var found []string
	for k, v := range h {
		if len(k) == len(name) && strings.EqualFold(k, name) { // a name that counts is ASCII
			found = append(found, v...)
		}
	}
	return found
}

// Get returns the first value of name, found as in [Header.Lookup], or "".
func (h Header) Get(name string) string {
	if v := h.Lookup(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// Set replaces every spelling of name by one value.
func (h Header) Set(name, value string) {
	for k := range h {
		if k != name && len(k) == len(name) && strings.EqualFold(k, name) {
			delete(h, k)
		}
	}
	h[name] = []string{value}
}

// single returns the one value of name. It reports whether the header is present,
// and an error when it is given twice or its value holds a line break.
func (h Header) single(name string) (string, bool, error) {
	v := h.Lookup(name)
	switch {
	case len(v) == 0:
		return "", false, nil
	case len(v) > 1:
		return "", true, errRepeated
	case strings.ContainsAny(v[0], "\r\n"):
		return "", true, errors.New("contains a line break")
	}
	return v[0], true, nil
}

// inline are the headers in which a server speaks to a client beside a message.
// Carried on, they would make a client take a letter without a body for the
// server's word.
var inline = []string{"Status", "Description"}

// Agent returns the headers that may be carried on: a copy without the server's
// own (Nats-*, Status, Description) and without the dispatcher's. stripped counts the dispatcher's
// headers that were there, which from an agent is an attempt to forge them.
func (h Header) Agent() (kept Header, stripped int) {
	kept = make(Header, len(h))
	for k, v := range h {
		switch {
		case ServerHeader(k):
		case hasPrefix(k, "tollgate-") && among(owned, k):
			stripped++
		default:
			kept[k] = slices.Clone(v)
		}
	}
	return kept, stripped
}

// ServerHeader reports whether a header is one in which a server speaks. It never goes
// into a new publish.
func ServerHeader(name string) bool { return hasPrefix(name, "nats-") || among(inline, name) }

func hasPrefix(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// among reports whether a header is one of those, which are all ASCII.
func among(names []string, header string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(n) == len(header) && strings.EqualFold(n, header) })
}

// Size is the number of bytes the headers take on the wire.
func (h Header) Size() int {
	n := len("NATS/1.0\r\n\r\n")
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}

// Clone returns a deep copy.
func (h Header) Clone() Header {
	c := make(Header, len(h))
	for k, v := range h {
		c[k] = slices.Clone(v)
	}
	return c
}

// Trim drops the largest values until the headers fit max bytes, so that a
// malformed message can still be stored. It reports whether anything was dropped.
func (h Header) Trim(max int) bool {
	trimmed := false
	for h.Size() > max {
		largest, size := "", -1
		for k, vs := range h {
			n := Header{k: vs}.Size()
			if n > size || n == size && k < largest {
				largest, size = k, n
			}
		}
		delete(h, largest)
		trimmed = true
	}
	return trimmed
}

func fieldError(field, format string, args ...any) *Malformed {
	return &Malformed{Field: field, Problem: fmt.Sprintf(format, args...)}
}
