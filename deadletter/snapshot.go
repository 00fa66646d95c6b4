package deadletter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"time"
	"unique"

	"github.com/nats-io/nats.go/jetstream"
)

// A snapshot is the index as it was, in a file, so that a start does not read every
// letter again. It is a copy of a copy: one that is missing, damaged, of another
// stream or of another version is left aside, and the letters are read instead. What
// the stream got or lost since is found as it always is.

// snapshotVersion begins a file. Another version is not read.
const snapshotVersion = "tollgate letters 1\n"

// savedEvery is by how many letters, or by what part of all, an index must have changed
// to be worth another file.
const (
	savedEvery = 1000
	savedPart  = 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errSnapshot is returned for a file that is none of ours or is damaged.
var errSnapshot = errors.New("not a snapshot of the letters")

// save writes a snapshot when enough has changed, or anything at the end.
func (x *Index) save(end bool) error {
	x.mu.Lock()
	created, read, entries, alive := x.created, x.read, x.entries, x.alive
	x.mu.Unlock()
	changed := abs(int(read)-int(x.saved.read)) + abs(alive-x.saved.alive)
	if x.File == "" || changed == 0 || !end && changed < savedEvery+alive/savedPart {
		return nil
	}
	body := encodeSnapshot(created, read, entries)
	if err := os.WriteFile(x.File+".new", body, 0o600); err != nil {
		return fmt.Errorf("keep the index of letters: %w", err)
	}
	if err := os.Rename(x.File+".new", x.File); err != nil {
		return fmt.Errorf("keep the index of letters: %w", err)
	}
	x.saved.read, x.saved.alive = read, alive
	return nil
}

func abs(n int) int { return max(n, -n) }

// restore fills an empty index from its file, if that fits the stream.
func (x *Index) restore(ctx context.Context, st jetstream.Stream) {
	if x.File == "" {
		return
	}
	body, err := os.ReadFile(x.File)
	if err != nil {
		return
	}
	s, err := decodeSnapshot(body)
	info := st.CachedInfo()
	if err != nil || !s.created.Equal(info.Created) || s.read > info.State.LastSeq || !x.stored(ctx, st, s.entries) {
		return
	}
	x.reset(s.created)
	for i := range s.entries {
		x.insert(&s.entries[i].entry, s.entries[i].call)
	}
	x.mu.Lock()
	x.read = s.read
	x.saved.read, x.saved.alive = s.read, x.alive
	x.mu.Unlock()
}

// stored reports whether the stream still has the newest letter of a snapshot where it
// was: a stream that was restored from an older copy goes on differently.
func (x *Index) stored(ctx context.Context, st jetstream.Stream, entries []savedEntry) bool {
	if len(entries) == 0 {
		return true
	}
	last := &entries[len(entries)-1]
	m, err := st.GetMsg(ctx, last.seq)
	if err != nil {
		return false
	}
	at, err := x.store.subjects.ParseLetter(m.Subject)
	return err == nil && at.Call == last.call && at.Generation == last.generation
}

// savedEntry is an entry that is not in an index yet.
type savedEntry struct {
	entry
	call string
}

type snapshot struct {
	created time.Time
	read    uint64
	entries []savedEntry
}

// encodeSnapshot writes what is alive of the entries: the kinds, runs and messages that
// they share once each, and a checksum behind all of it.
func encodeSnapshot(created time.Time, read uint64, entries []*entry) []byte {
	e := encoder{kinds: map[unique.Handle[kind]]uint64{}, texts: map[string]uint64{}}
	var rows []byte
	n := uint64(0)
	for _, x := range entries {
		if !x.gone.Load() {
			rows = e.row(rows, x)
			n++
		}
	}
	out := binary.AppendUvarint(appendTime([]byte(snapshotVersion), created), read)
	out = append(binary.AppendUvarint(out, uint64(len(e.texts))), e.textTable...)
	out = append(binary.AppendUvarint(out, uint64(len(e.kinds))), e.kindTable...)
	out = append(binary.AppendUvarint(out, n), rows...)
	return seal(out)
}

// seal puts the checksum behind a file.
func seal(out []byte) []byte {
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// encoder numbers what rows share as it comes.
type encoder struct {
	kinds                map[unique.Handle[kind]]uint64
	texts                map[string]uint64
	kindTable, textTable []byte
}

func (e *encoder) text(s string) uint64 {
	n, ok := e.texts[s]
	if !ok {
		n = uint64(len(e.texts))
		e.texts[s] = n
		e.textTable = appendText(e.textTable, s)
	}
	return n
}

func (e *encoder) kind(h unique.Handle[kind]) uint64 {
	n, ok := e.kinds[h]
	if !ok {
		n = uint64(len(e.kinds))
		e.kinds[h] = n
		k := h.Value()
		for _, s := range k.texts() {
			e.kindTable = appendText(e.kindTable, *s)
		}
	}
	return n
}

func (e *encoder) row(out []byte, x *entry) []byte {
	for _, n := range []uint64{x.seq, e.kind(x.kind), e.text(x.message), e.text(x.run.Value()), x.origin, uint64(x.generation), uint64(x.attempts), flags(x)} {
		out = binary.AppendUvarint(out, n)
	}
	out = appendText(appendText(out, x.key), x.fate.call)
	return appendTime(appendTime(appendTime(out, x.died), x.seen), x.deadline)
}

func flags(x *entry) (n uint64) {
	if x.truncated {
		n |= 1
	}
	if x.bodyLost {
		n |= 2
	}
	return n
}

// texts are a kind's fields, in the order of the file.
func (k *kind) texts() []*string {
	return []*string{&k.tenant, &k.tool, &k.reason, &k.code, &k.class, &k.fingerprint, &k.stream, &k.subject, (*string)(&k.lane), &k.replay}
}

func appendText(out []byte, s string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(s))), s...)
}

func appendTime(out []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(out, t.Unix()), uint64(t.Nanosecond()))
}

// decodeSnapshot reads a whole file, or nothing of it.
func decodeSnapshot(body []byte) (s snapshot, err error) {
	d := decoder{rest: body}
	if len(body) < len(snapshotVersion)+4 || !bytes.HasPrefix(body, []byte(snapshotVersion)) {
		return s, errSnapshot
	}
	d.rest = body[len(snapshotVersion) : len(body)-4]
	if crc32.Checksum(body[:len(body)-4], castagnoli) != binary.BigEndian.Uint32(body[len(body)-4:]) {
		return s, errSnapshot
	}
	s.created, s.read = d.time(), d.number()
	texts := make([]string, d.count())
	for i := range texts {
		texts[i] = d.text()
	}
	kinds := make([]unique.Handle[kind], d.count())
	for i := range kinds {
		var k kind
		for _, t := range k.texts() {
			*t = d.text()
		}
		kinds[i] = unique.Make(k)
	}
	s.entries = make([]savedEntry, d.count())
	for i := range s.entries {
		d.row(&s.entries[i], kinds, texts)
	}
	if d.bad || len(d.rest) > 0 {
		return snapshot{}, errSnapshot
	}
	return s, nil
}

// decoder reads from the front of rest. After anything that does not fit it is bad,
// and gives zeros.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) row(x *savedEntry, kinds []unique.Handle[kind], texts []string) {
	x.seq = d.number()
	k, message, run := d.number(), d.number(), d.number()
	x.origin, x.generation, x.attempts = d.number(), int(d.number()), int(d.number())
	set := d.number()
	x.truncated, x.bodyLost = set&1 != 0, set&2 != 0
	x.key, x.call = d.text(), d.text()
	x.died, x.seen, x.deadline = d.time(), d.time(), d.time()
	if k >= uint64(len(kinds)) || message >= uint64(len(texts)) || run >= uint64(len(texts)) {
		d.bad = true
		return
	}
	x.kind, x.message, x.run = kinds[k], texts[message], unique.Make(texts[run])
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count is a number of things of at least a byte each.
func (d *decoder) count() int {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count()
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) time() time.Time {
	sec, size := binary.Varint(d.rest)
	if size <= 0 {
		d.bad, d.rest = true, nil
		return time.Time{}
	}
	d.rest = d.rest[size:]
	return time.Unix(sec, int64(d.number())).UTC()
}
