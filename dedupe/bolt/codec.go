package bolt

import (
	"bytes"
	_ "embed" // the dictionary
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/s2"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// A stored record is a head, read for every record at start-up, and a body:
//
//	version 1 | flags 1 | since 8 | crc 4 | length, call | length, run key | CBOR
const (
	recordVersion = 2 // 1 packed with zstd
	crcAt         = 10
	headSize      = 14
	flagPinned    = 1 // a dead letter an operator may still replay
	flagPacked    = 2 // the body is compressed
)

// head is what start-up and expiry need of a record.
type head struct {
	pinned bool
	packed bool
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

// dictionary is a few records as they look, for the compressor to refer to: a
// record alone is too short to compress. It is part of the format: a changed one
// needs a new record version.
//
//go:embed record.dict
var dictionary []byte

// codec writes and reads records. Writing is one goroutine's, since it keeps
// buffers; reading is anybody's.
type codec struct {
	body   []byte
	packed []byte
	dict   *s2.Dict
}

func newCodec() *codec { return &codec{dict: s2.MakeDict(dictionary, nil)} }

// maxBody bounds what a record may unpack to: far more than a message can hold.
const maxBody = 64 << 20

// unpack returns the body as it was before it was compressed.
func (e *codec) unpack(packed []byte) ([]byte, error) {
	n, err := s2.DecodedLen(packed)
	if err == nil && n > maxBody {
		err = fmt.Errorf("unpacks to %d bytes", n)
	}
	if err != nil {
		return nil, err
	}
	return e.dict.Decode(nil, packed)
}

// Records are CBOR: half the size of JSON and a third of its time, under the same
// field names. Times keep their nanoseconds, and an agent's headers their bytes, whatever they are.
var (
	encMode = must(cbor.EncOptions{Time: cbor.TimeRFC3339NanoUTC, Sort: cbor.SortNone}.EncMode())
	decMode = must(cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 20}.DecMode())
)

func must[M any](mode M, err error) M {
	if err != nil {
		panic("bolt: " + err.Error())
	}
	return mode
}

// record encodes r.
func (e *codec) record(r *dedupe.Record) ([]byte, error) {
	w := writer{out: e.body[:0]}
	w.record(r)
	if w.err != nil {
		return nil, fmt.Errorf("record of call %s: %w", r.Call, w.err)
	}
	e.body = w.out
	body := e.body
	if packs(r) {
		e.packed = e.dict.Encode(e.packed[:cap(e.packed)], body)
		body = e.packed
	}
	run := runOf(r)
	out := make([]byte, headSize, headSize+len(r.Call)+len(run)+len(body)+8)
	out[0] = recordVersion
	if pinned(r) {
		out[1] |= flagPinned
	}
	if packs(r) {
		out[1] |= flagPacked
	}
	for _, s := range []string{r.Call, run} {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	out = append(out, body...)
	stamp(out, since(r))
	return out, nil
}

// packs reports whether a record is worth compressing: not when it will soon be
// written again.
func packs(r *dedupe.Record) bool { return settled(r) || parks(r) }

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
	h := head{pinned: v[1]&flagPinned != 0, packed: v[1]&flagPacked != 0, since: time.Unix(0, int64(binary.BigEndian.Uint64(v[2:])))}
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

func (e *codec) decode(v []byte) (*dedupe.Record, error) {
	s := stored{Record: &dedupe.Record{}}
	call, err := e.read(v, &s)
	if err != nil {
		return nil, err
	}
	return unpack(call, &s), nil
}

// standing reads of a record what its letters need.
func (e *codec) standing(v []byte) (*dedupe.Standing, error) {
	var s dedupe.Standing
	_, err := e.read(v, &s)
	return &s, err
}

// read checks a record and reads its body into what is asked for.
func (e *codec) read(v []byte, into any) (call string, err error) {
	h, err := readHead(v)
	if err != nil {
		return "", err
	}
	if checksum(v) != binary.BigEndian.Uint32(v[crcAt:]) {
		return "", fmt.Errorf("%w: the record of call %s has a wrong checksum", ErrDamaged, h.call)
	}
	if h.packed {
		if h.body, err = e.unpack(h.body); err != nil {
			return "", fmt.Errorf("%w: record of call %s: %w", ErrDamaged, h.call, err)
		}
	}
	if err := decMode.Unmarshal(h.body, into); err != nil {
		return "", fmt.Errorf("%w: record of call %s: %w", ErrDamaged, h.call, err)
	}
	return h.call, nil
}

// versioned marshals v behind a version byte.
func versioned(v any) ([]byte, error) {
	b := bytes.NewBuffer([]byte{recordVersion})
	err := encMode.NewEncoder(b).Encode(v)
	return b.Bytes(), err
}

func readVersioned(b []byte, v any) error {
	switch {
	case len(b) == 0:
		return fmt.Errorf("%w: an empty entry", ErrDamaged)
	case b[0] != recordVersion:
		return fmt.Errorf("an entry has version %d, this version of Tollgate reads %d: use the version that wrote it", b[0], recordVersion)
	}
	if err := decMode.Unmarshal(b[1:], v); err != nil {
		return errors.Join(ErrDamaged, err)
	}
	return nil
}
