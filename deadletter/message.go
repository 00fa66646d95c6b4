// Package deadletter is the dead letters: how one is written so that it is always
// storable and stands alone, how they are read, listed and grouped, and what an
// operator may do with one: replay, resolve, discard, restore. Each of those is one
// ledger commit with an audit entry.
//
// Whether a call becomes a letter is the gate's decision, not made here.
package deadletter

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// Bounds that keep a letter storable: the server refuses more than 64 KiB of headers.
const (
	maxOutcome = 32 << 10
	maxMessage = 2 << 10
)

// headerTruncated says that headers or the outcome were cut to fit.
const headerTruncated = "Tollgate-Truncated"

// headerBodyLost says that the request's bytes were gone when the letter was written.
const headerBodyLost = "Tollgate-Body-Lost"

// message is the letter of a settled call.
func message(s schemas.Subjects, r *dedupe.Record) *nats.Msg {
	h := schemas.Header{}
	var body []byte
	if r.Request != nil {
		h, body = r.Request.Header.Clone(), r.Request.Body
	}
	o := *r.Outcome
	h.Set(schemas.HeaderLetter, r.LetterID())
	h.Set(schemas.HeaderCall, r.Call)
	h.Set(schemas.HeaderGeneration, strconv.Itoa(r.Generation))
	h.Set(schemas.HeaderAttempt, strconv.Itoa(len(r.Attempts)))
	h.Set(schemas.HeaderSpentAttempts, strconv.FormatInt(o.Budget.Attempts.Used, 10))
	h.Set(schemas.HeaderSpentSideEffects, strconv.FormatInt(o.Budget.SideEffects.Used, 10))
	h.Set(schemas.HeaderFirstSeen, stamp(r.Published))
	if r.BodyLost {
		h.Set(headerBodyLost, "1")
	}
	if r.Replay != "" {
		h.Set(schemas.HeaderReplay, r.Replay)
	}
	describe(h, r.LetterReason, r.Tool, &o, r.Origin)
	return &nats.Msg{Subject: s.Letter(r.Tenant, r.LetterReason, r.Tool, r.Call, r.Generation), Header: nats.Header(h), Data: body}
}

// refusalMessage is the letter of a message that never became a call.
func refusalMessage(s schemas.Subjects, d dispatcher.Delivery, o *schemas.Outcome, reason, id string) *nats.Msg {
	h, _ := d.Header.Agent()
	trimmed := h.Trim(schemas.MaxHeaderBytes)
	for k, vs := range h { // what cannot be written into a header block is not carried on
		for i, v := range vs {
			vs[i] = strings.NewReplacer("\r", " ", "\n", " ").Replace(v)
		}
		h[k] = vs
	}
	tenant, tool := d.Tenant, d.Tool
	if !schemas.ValidTenant(tenant) {
		tenant = schemas.Invalid
	}
	if !schemas.ValidTool(tool) {
		tool = schemas.Invalid
	}
	h.Set(schemas.HeaderLetter, dedupe.LetterID(id, 0))
	h.Set(schemas.HeaderGeneration, "0")
	h.Set(schemas.HeaderFirstSeen, stamp(d.Origin.Time))
	if trimmed {
		h.Set(headerTruncated, "headers")
	}
	describe(h, reason, tool, o, d.Origin)
	return &nats.Msg{Subject: s.Letter(tenant, reason, tool, id, 0), Header: nats.Header(h), Data: d.Body}
}

// describe adds what every letter says: reason, error, origin, outcome.
func describe(h schemas.Header, reason, tool string, o *schemas.Outcome, from schemas.Origin) {
	_, text := cause(o.Error)
	if e := o.Error; e != nil && e.Scope != "" && e.LastFailure == nil {
		text = e.Reason // the message names the run, and a thousand runs without budget are one group
	}
	h.Set(schemas.HeaderReason, reason)
	h.Set(schemas.HeaderLastCode, o.Code())
	h.Set(schemas.HeaderFingerprint, Fingerprint(tool, o.Code(), text))
	h.Set(schemas.HeaderDiedAt, stamp(o.Timing.Settled))
	h.Set(schemas.HeaderOriginStream, from.Stream)
	h.Set(schemas.HeaderOriginSubject, from.Subject)
	h.Set(schemas.HeaderOriginSequence, strconv.FormatUint(from.Sequence, 10))
	encoded, cut := boundedOutcome(*o)
	h.Set(schemas.HeaderOutcome, encoded)
	if cut {
		h.Set(headerTruncated, "outcome")
	}
}

// cause is what a call died of, in the words that tell one trouble from another: of one
// that ran out of attempts, time or budget that is its last failure.
func cause(e *schemas.Error) (class, text string) {
	if e == nil {
		return "", ""
	}
	if f := e.LastFailure; f != nil {
		return cmp.Or(f.Class, e.Class), f.Code + ": " + f.Message
	}
	return e.Class, e.Message
}

// boundedOutcome encodes an outcome in at most maxOutcome bytes: first the result
// goes, then long messages, then as many of the first attempts as it takes.
func boundedOutcome(o schemas.Outcome) (string, bool) {
	encode := func() string {
		b, err := json.Marshal(o)
		if err != nil {
			panic("deadletter: " + err.Error())
		}
		return string(b)
	}
	s := encode()
	if len(s) <= maxOutcome {
		return s, false
	}
	o.Content, o.Structured = nil, nil
	if o.Error != nil {
		e := *o.Error
		e.Message = clip(e.Message)
		if f := e.LastFailure; f != nil {
			e.LastFailure = &schemas.Error{Code: f.Code, Class: f.Class, Phase: f.Phase, Message: clip(f.Message)}
		}
		o.Error = &e
	}
	for s = encode(); len(s) > maxOutcome && len(o.Attempts) > 0; s = encode() {
		o.Attempts = o.Attempts[(len(o.Attempts)+1)/2:] // the last are worth the most
	}
	return s, true
}

func clip(s string) string {
	if len(s) > maxMessage {
		return strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// volatile is what differs between two messages of the same error: numbers, hex,
// UUIDs, quoted strings, URLs. A time goes with its unit, which its length decides.
var volatile = regexp.MustCompile(`https?://\S+|"[^"]*"|'[^']*'|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\b(\d+(\.\d+)?(ns|us|µs|μs|ms|s|m|h))+\b|\d+(\.\d+)?`)

// Fingerprint names an error for grouping: tool, code and normalised message.
func Fingerprint(tool, code, message string) string {
	normal := strings.Join(strings.Fields(volatile.ReplaceAllString(message, "*")), " ")
	sum := sha256.Sum256([]byte(tool + "\x00" + code + "\x00" + normal))
	return "g-" + hex.EncodeToString(sum[:5])
}
