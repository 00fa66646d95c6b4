package deadletter

import (
	"slices"
	"testing"
	"time"
	"unique"
)

// sample is an index of three letters, one of which is gone.
func sample() []*entry {
	at := time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)
	k := unique.Make(kind{tenant: "acme", tool: "crm.upsert", reason: "exhausted", code: "CALL_ATTEMPTS_EXHAUSTED", class: "transient", fingerprint: "f1", stream: "TOLLGATE_CALLS", subject: "tollgate.calls.acme.crm.upsert", lane: "calls", replay: "b1"})
	other := unique.Make(kind{reason: "malformed"})
	f := &fate{call: "c1"}
	return []*entry{
		{seq: 3, kind: k, message: "503", run: unique.Make("r1/a"), key: "k1", fate: f, origin: 7, generation: 2, attempts: 3, died: at, seen: at.Add(-time.Hour), deadline: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), truncated: true},
		{seq: 4, kind: other, run: unique.Make(""), fate: &fate{call: "m1"}, bodyLost: true},
		{seq: 1 << 60, kind: k, message: "503", run: unique.Make("r1/a"), key: "k\xff2", fate: f, generation: 3},
	}
}

func TestASnapshotIsTheIndex(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	want := sample()
	want[1].gone.Store(true)
	s, err := decodeSnapshot(encodeSnapshot(created, 1<<61, want))
	if err != nil {
		t.Fatal(err)
	}
	if !s.created.Equal(created) || s.read != 1<<61 || len(s.entries) != 2 {
		t.Fatalf("%+v", s)
	}
	for i, w := range []*entry{want[0], want[2]} {
		got := &s.entries[i]
		if got.call != w.fate.call || got.seq != w.seq || got.kind != w.kind || got.message != w.message || got.run != w.run || got.key != w.key || got.origin != w.origin ||
			got.generation != w.generation || got.attempts != w.attempts || !got.died.Equal(w.died) || !got.seen.Equal(w.seen) || !got.deadline.Equal(w.deadline) ||
			got.died.IsZero() != w.died.IsZero() || got.truncated != w.truncated || got.bodyLost != w.bodyLost {
			t.Errorf("entry %d: %+v, want %+v", i, got, w)
		}
	}
}

// A file that a crash or a disk has damaged is not believed: one changed bit, or a
// part that is missing, and the letters are read instead.
func TestADamagedSnapshotIsLeftAside(t *testing.T) {
	whole := encodeSnapshot(time.Now(), 9, sample())
	for i := range whole {
		broken := slices.Clone(whole)
		broken[i] ^= 0x10
		if _, err := decodeSnapshot(broken); err == nil {
			t.Fatalf("byte %d of %d changed, and it was read", i, len(whole))
		}
		if _, err := decodeSnapshot(whole[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes were read", i, len(whole))
		}
	}
}

// Whatever stands in the file, reading it ends, and costs no more than the file.
func FuzzReadSnapshot(f *testing.F) {
	whole := encodeSnapshot(time.Unix(0, 0), 9, sample())
	f.Add(whole[len(snapshotVersion) : len(whole)-4])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		file := seal(append([]byte(snapshotVersion), body...))
		s, err := decodeSnapshot(file)
		if err != nil {
			return
		}
		if len(s.entries) > len(body) {
			t.Errorf("%d entries of %d bytes", len(s.entries), len(body))
		}
	})
}
