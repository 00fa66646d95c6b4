package schemas

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Version is the only contract version this package reads.
const Version = 1

// MaxHeaderBytes bounds the headers of a request, so that a dead letter, which
// adds its own, is always storable: the server refuses more than 64 KiB.
const MaxHeaderBytes = 16 << 10

// maxTrace bounds the trace context, which every attempt keeps. The W3C's is 55 long.
const maxTrace = 128

// BodyReserve is how far below the server's max_payload a body must stay.
const BodyReserve = 64 << 10

// ValidRun reports whether s is a legal run path: up to 8 segments of
// [A-Za-z0-9_:-]{1,128} joined by slashes.
func ValidRun(s string) bool { return segments(s, runSet, '/', 8, 128) }

// ValidKey reports whether s is a legal idempotency key: 1 to 255 visible ASCII.
func ValidKey(s string) bool {
	if len(s) < 1 || len(s) > 255 {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// Root returns the first segment of a run path.
func Root(run string) string {
	root, _, _ := strings.Cut(run, "/")
	return root
}

// Origin says where a message came from. Time is the stream's (UTC).
type Origin struct {
	Stream   string    `json:"stream,omitempty"`
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"seq,omitempty"`
	Time     time.Time `json:"time"`
}

// RunLimits are the limits a message names for its own run path; nil is absent.
type RunLimits struct {
	Attempts    *int       `json:"attempts,omitempty"`
	SideEffects *int       `json:"side_effects,omitempty"`
	Deadline    *time.Time `json:"deadline,omitempty"`
}

// Request is one tool call as an agent asked for it. Body is the arguments, to be
// given to the tool byte for byte; Header holds the agent's headers only.
type Request struct {
	Lane       Lane      `json:"lane"`
	Tenant     string    `json:"tenant"`
	Tool       string    `json:"tool"`
	Run        string    `json:"run"`
	Key        string    `json:"key"`
	Deadline   time.Time `json:"deadline"`
	Limits     RunLimits `json:"limits"`
	Policy     string    `json:"policy,omitempty"`
	ToolCallID string    `json:"tool_call_id,omitempty"`
	Header     Header    `json:"header,omitempty"`
	Body       []byte    `json:"body"`
	Stripped   int       `json:"-"` // dispatcher-owned headers an agent had set
}

// Malformed says which part of a message breaks the contract, and how.
type Malformed struct {
	Field   string
	Problem string
}

func (m *Malformed) Error() string { return m.Field + ": " + m.Problem }

// Defaults fills what the request/reply endpoint may leave out. The zero value
// fills nothing: on a stream every required header must be there.
type Defaults struct {
	Deadline time.Time                                  // zero: the header is required
	Key      func(tool, run string, body []byte) string // nil: the header is required
}

// ParseRequest reads a request from a delivery on the given lane. Every error is
// a *[Malformed] naming the field. The body must be one JSON object; that it has
// no duplicate keys is found when its fingerprint is taken.
func ParseRequest(lane Lane, tenant, tool string, h Header, body []byte, d Defaults) (Request, error) {
	r := Request{Lane: lane, Tenant: tenant, Tool: tool, Body: body}
	r.Header, r.Stripped = h.Agent()
	// Only what travels on counts: a retry also has the dispatcher's own headers.
	if n := r.Header.Size(); n > MaxHeaderBytes {
		return r, fieldError("headers", "%d bytes, at most %d", n, MaxHeaderBytes)
	}
	p := headerParser{h: h}
	if v := p.optional(HeaderVersion); v != "" && v != strconv.Itoa(Version) {
		return r, fieldError(HeaderVersion, "%q is not a version this dispatcher reads (it reads %d)", v, Version)
	}
	r.Run = p.required(HeaderRun, "")
	if r.Run != "" && !ValidRun(r.Run) {
		p.fail(HeaderRun, "%q: want up to 8 segments of [A-Za-z0-9_:-]{1,128} joined by slashes", clip(r.Run))
	}
	if d.Key != nil && !p.present(HeaderKey) {
		r.Key = d.Key(tool, r.Run, body)
	} else {
		r.Key = p.required(HeaderKey, "")
	}
	if r.Key != "" && !ValidKey(r.Key) {
		p.fail(HeaderKey, "want 1 to 255 visible ASCII characters without spaces")
	}
	r.Deadline = p.time(HeaderDeadline, d.Deadline)
	r.Limits.Attempts = p.count(HeaderRunAttempts)
	r.Limits.SideEffects = p.count(HeaderRunSideEffects)
	if p.present(HeaderRunDeadline) {
		t := p.time(HeaderRunDeadline, time.Time{})
		r.Limits.Deadline = &t
	}
	r.Policy = p.optional(HeaderPolicy)
	r.ToolCallID = p.optional(HeaderToolCallID)
	if len(r.ToolCallID) > 256 || !utf8.ValidString(r.ToolCallID) {
		p.fail(HeaderToolCallID, "want at most 256 bytes of UTF-8")
	}
	if trace := p.optional(HeaderTraceParent); len(trace) > maxTrace || strings.Trim(trace, "0123456789abcdefABCDEF-") != "" {
		p.fail(HeaderTraceParent, "want a W3C trace context, at most %d of hexadecimal digits and dashes", maxTrace)
	}
	if p.err != nil {
		return r, p.err
	}
	return r, nil
}

// headerParser reads headers and keeps the first problem.
type headerParser struct {
	h   Header
	err *Malformed
}

func (p *headerParser) fail(field, format string, args ...any) {
	if p.err == nil {
		p.err = fieldError(field, format, args...)
	}
}

func (p *headerParser) present(name string) bool { return len(p.h.Lookup(name)) > 0 }

func (p *headerParser) optional(name string) string {
	v, _, err := p.h.single(name)
	if err != nil {
		p.fail(name, "%v", err)
	}
	return v
}

func (p *headerParser) required(name, fallback string) string {
	v, present, err := p.h.single(name)
	switch {
	case err != nil:
		p.fail(name, "%v", err)
	case !present && fallback == "":
		p.fail(name, "required header is missing")
	case !present:
		return fallback
	case v == "":
		p.fail(name, "is empty")
	}
	return v
}

// time reads an RFC 3339 time with an offset. A zero fallback makes it required.
func (p *headerParser) time(name string, fallback time.Time) time.Time {
	v, present, err := p.h.single(name)
	switch {
	case err != nil:
		p.fail(name, "%v", err)
		return fallback
	case !present && fallback.IsZero():
		p.fail(name, "required header is missing")
		return fallback
	case !present:
		return fallback
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		p.fail(name, "%q is not an RFC 3339 time with an offset (example: 2026-11-30T12:00:00Z)", clip(v))
		return fallback
	}
	if y := t.Year(); y < 1970 || y > 2260 { // outside, int64 nanoseconds overflow
		p.fail(name, "%q is out of range", clip(v))
		return fallback
	}
	return t.UTC()
}

// count reads a non-negative whole number.
func (p *headerParser) count(name string) *int {
	v, present, err := p.h.single(name)
	if err != nil {
		p.fail(name, "%v", err)
		return nil
	}
	if !present {
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		p.fail(name, "%q is not a whole number from 0 to 2147483647", clip(v))
		return nil
	}
	i := int(n)
	return &i
}

func clip(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("%s… (%d bytes)", s[:64], len(s))
	}
	return s
}
