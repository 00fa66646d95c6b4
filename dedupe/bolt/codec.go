package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// A stored record is a head, read for every record at start-up, and a body:
//
//	version 1 | flags 1 | since 8 | crc 4 | length, call | length, run key | JSON
const (
	recordVersion = 1
	crcAt         = 10
	headSize      = 14
	flagPinned    = 1 // a dead letter an operator may still replay
)

// head is what start-up and expiry need of a record.
type head struct {
	pinned bool
	since  time.Time // expiry counts from here
	call   string
	run    string // key of the run that pays
	body   []byte
}

// pinned reports whether the record stays while its letter does.
func pinned(r *dedupe.Record) bool {
	return r.Letter == schemas.LetterActive || r.Letter == schemas.LetterReplaying
}

func runOf(r *dedupe.Record) string { return runKey(r.Tenant, schemas.Root(r.Run)) }

func encodeRecord(r *dedupe.Record) ([]byte, error) {
	body, err := marshal(pack(r))
	if err != nil {
		return nil, fmt.Errorf("record of call %s: %w", r.Call, err)
	}
	run := runOf(r)
	out := make([]byte, headSize, headSize+len(r.Call)+len(run)+len(body)+8)
	out[0] = recordVersion
	if pinned(r) {
		out[1] |= flagPinned
	}
	for _, s := range []string{r.Call, run} {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	out = append(out, body...)
	stamp(out, since(r))
	return out, nil
}

// since is when a record's retention begins: what became of its letter counts as
// news of it.
func since(r *dedupe.Record) time.Time {
	switch {
	case r.LetterSettled.After(r.Settled):
		return r.LetterSettled
	case r.Settled.IsZero():
		return time.Now()
	}
	return r.Settled
}

// stamp sets since and the checksum, which covers everything but itself.
func stamp(v []byte, since time.Time) {
	binary.BigEndian.PutUint64(v[2:], uint64(since.UnixNano()))
	binary.BigEndian.PutUint32(v[crcAt:], checksum(v))
}

func checksum(v []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(v[:crcAt], table), table, v[headSize:])
}

// readHead reads a record's head. The body is not checked.
func readHead(v []byte) (head, error) {
	if len(v) < headSize {
		return head{}, fmt.Errorf("%w: a record of %d bytes", ErrDamaged, len(v))
	}
	if v[0] != recordVersion {
		return head{}, fmt.Errorf("a record has version %d, this version of Tollgate reads %d: use the version that wrote it", v[0], recordVersion)
	}
	h := head{pinned: v[1]&flagPinned != 0, since: time.Unix(0, int64(binary.BigEndian.Uint64(v[2:])))}
	rest := v[headSize:]
	for _, s := range []*string{&h.call, &h.run} {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return head{}, fmt.Errorf("%w: a record's head is cut off", ErrDamaged)
		}
		*s, rest = string(rest[size:size+int(n)]), rest[size+int(n):]
	}
	h.body = rest
	return h, nil
}

func decodeRecord(v []byte) (*dedupe.Record, error) {
	h, err := readHead(v)
	if err != nil {
		return nil, err
	}
	if checksum(v) != binary.BigEndian.Uint32(v[crcAt:]) {
		return nil, fmt.Errorf("%w: the record of call %s has a wrong checksum", ErrDamaged, h.call)
	}
	s := stored{Record: &dedupe.Record{}}
	if err := json.Unmarshal(h.body, &s); err != nil {
		return nil, fmt.Errorf("%w: record of call %s: %w", ErrDamaged, h.call, err)
	}
	return unpack(h.call, &s), nil
}

func pack(r *dedupe.Record) *stored {
	s := &stored{Record: r, Root: r.Root, DownstreamKey: r.DownstreamKey, Terms: storedTerms(r.Terms),
		Maxima: storedMaxima(r.Terms.Run), Origin: storedOrigin(r.Origin), Outcome: r.Outcome}
	for _, a := range r.Attempts {
		s.Attempts = append(s.Attempts, storedAttempt(a))
	}
	if s.Root == schemas.Root(r.Run) {
		s.Root = ""
	}
	if r.Outcome != nil && ownOutcome(r) {
		o := storedOutcome(*r.Outcome)
		s.Own, s.Outcome = &o, nil
		s.OwnAttempts = len(r.Outcome.Attempts) > 0
	}
	return s
}

// ownOutcome reports whether the outcome repeats its record, as all do but one
// that is kept as history of an earlier generation or payer.
func ownOutcome(r *dedupe.Record) bool {
	bare, o := *r.Outcome, r.Outcome
	identify(&bare, r)
	same := len(o.Attempts) == 0 || reflect.DeepEqual(o.Attempts, r.Attempts)
	return same && bare.Tenant == o.Tenant && bare.Lane == o.Lane && bare.Run == o.Run && bare.Tool == o.Tool &&
		bare.Call == o.Call && bare.Generation == o.Generation && bare.Key == o.Key &&
		bare.Fingerprint == o.Fingerprint && bare.ToolCallID == o.ToolCallID
}

// identify gives an outcome what it shares with its record.
func identify(o *schemas.Outcome, r *dedupe.Record) {
	o.Tenant, o.Lane, o.Run, o.Tool, o.Call = r.Tenant, r.Lane, r.Run, r.Tool, r.Call
	o.Generation, o.Key, o.Fingerprint, o.ToolCallID = r.Generation, r.Key, r.Fingerprint, r.ToolCallID
}

func unpack(call string, s *stored) *dedupe.Record {
	r := s.Record
	r.Call, r.Root, r.DownstreamKey = call, s.Root, s.DownstreamKey
	r.Terms, r.Origin, r.Outcome = dedupe.Terms(s.Terms), schemas.Origin(s.Origin), s.Outcome
	r.Terms.Run = budget.Maxima(s.Maxima)
	if r.Root == "" {
		r.Root = schemas.Root(r.Run)
	}
	for _, a := range s.Attempts {
		r.Attempts = append(r.Attempts, schemas.Attempt(a))
	}
	if s.Own != nil {
		o := schemas.Outcome(*s.Own)
		identify(&o, r)
		if o.Attempts = []schemas.Attempt{}; s.OwnAttempts {
			o.Attempts = slices.Clone(r.Attempts)
		}
		r.Outcome = &o
	}
	return r
}

// marshal is JSON without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// versioned marshals v behind a version byte.
func versioned(v any) ([]byte, error) {
	b, err := marshal(v)
	return append([]byte{recordVersion}, b...), err
}

func readVersioned(b []byte, v any) error {
	switch {
	case len(b) == 0:
		return fmt.Errorf("%w: an empty entry", ErrDamaged)
	case b[0] != recordVersion:
		return fmt.Errorf("an entry has version %d, this version of Tollgate reads %d: use the version that wrote it", b[0], recordVersion)
	}
	if err := json.Unmarshal(b[1:], v); err != nil {
		return errors.Join(ErrDamaged, err)
	}
	return nil
}
