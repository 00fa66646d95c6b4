package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

func fuzzRecord(status schemas.Status) *dedupe.Record {
	at := time.Date(2026, 11, 30, 12, 0, 0, 7, time.UTC)
	r := &dedupe.Record{Call: "gllmcv863tdk43dsdjcs98pjqs", Tenant: "default", Run: "run_42/a", Tool: "crm.find", Key: "k", Lane: schemas.Calls, Published: at, Deadline: at.Add(time.Minute)}
	r.Attempts = []schemas.Attempt{{N: 1, Started: at, Ended: at.Add(time.Second), Class: "transient", Code: "HTTP_503"}}
	if status != "" {
		r.Settled = at.Add(2 * time.Second)
		r.Outcome = &schemas.Outcome{V: 1, ID: "o", Tenant: r.Tenant, Run: r.Run, Tool: r.Tool, Call: r.Call, Status: status, Attempts: r.Attempts}
	}
	return r
}

// Whatever a record's bytes are, under a checksum that fits, they are read without a
// panic; and what was read is written and read again as the same.
func FuzzDecodeRecord(f *testing.F) {
	for _, s := range []schemas.Status{"", schemas.Succeeded, schemas.UnknownOutcome} {
		v, err := newCodec().record(fuzzRecord(s))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(v)
		f.Add(v[:len(v)/2])
	}
	f.Add([]byte{recordVersion, flagPacked, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x28, 0xb5, 0x2f, 0xfd})
	f.Add([]byte{recordVersion, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	e := newCodec()
	f.Fuzz(func(t *testing.T, v []byte) {
		if v = bytes.Clone(v); len(v) >= headSize {
			binary.BigEndian.PutUint32(v[crcAt:], checksum(v))
		}
		r, err := e.decode(v)
		if err != nil {
			return
		}
		again, err := e.record(r)
		if err != nil {
			return // a time that cannot be written, which no record of ours holds
		}
		back, err := e.decode(again)
		if err != nil {
			t.Fatalf("written and not readable: %v", err)
		}
		if third, err := e.record(back); err != nil || !bytes.Equal(third[headSize:], again[headSize:]) {
			t.Errorf("%q is written as %q once, and then as %q (%v)", v, again, third, err)
		}
	})
}

// The other entries of the file: damage is an error that says so, never a panic.
func FuzzDecodeEntry(f *testing.F) {
	for _, v := range []any{budget.Run{}, entry{}, dedupe.Pause{}} {
		b, err := versioned(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{recordVersion, 0x9f, 0x9f, 0x9f, 0x9f})
	f.Add([]byte{recordVersion, 0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{recordVersion + 1, 0xa0})
	f.Fuzz(func(t *testing.T, v []byte) {
		for _, into := range []any{&budget.Run{}, &entry{}, &dedupe.Pause{}} {
			err := readVersioned(v, into)
			if err == nil && (len(v) == 0 || v[0] != recordVersion) {
				t.Errorf("%q was read", v)
			}
			if err != nil && len(v) > 0 && v[0] == recordVersion && !errors.Is(err, ErrDamaged) {
				t.Errorf("%v does not say that the file is damaged", err)
			}
		}
	})
}
