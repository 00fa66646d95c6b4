package bolt_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

const retention = time.Hour

func open(t *testing.T, path string, o bolt.Options) *bolt.Ledger {
	t.Helper()
	if o.Retention == 0 {
		o.Retention = retention
	}
	l, err := bolt.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func settled(n int) *dedupe.Record {
	key := fmt.Sprintf("step-%d", n)
	now := time.Now().UTC()
	r := &dedupe.Record{Call: dedupe.CallID("acme", "run_42", "payments.charge", key), Tenant: "acme", Lane: schemas.Calls,
		Root: "run_42", Run: "run_42/researcher", Tool: "payments.charge", Key: key, Fingerprint: strings.Repeat("3f", 32),
		State: dedupe.Done, Token: 1, Fence: 1, Epoch: 3, Published: now, Deadline: now.Add(time.Minute), FirstAttempt: now, Settled: now,
		ToolCallID: "toolu_01A09q90qw90lq917835lq9",
		Terms: dedupe.Terms{Policy: "standard", Effect: dedupe.Write, Safety: dedupe.IdempotencyKey, KeyRetention: 24 * time.Hour,
			Attempts: 4, Timeout: 5 * time.Second, BackoffBase: 200 * time.Millisecond, BackoffCap: 5 * time.Second, ThrottleBase: time.Second,
			MaxRetryAfter: time.Minute, MaxRepairs: 3, Dependency: "payments", Window: time.Minute,
			Run: budget.Maxima{Attempts: 100, SideEffects: 20, Elapsed: time.Hour, Accounts: 64}},
		Origin: schemas.Origin{Stream: "TOLLGATE_CALLS", Subject: "tollgate.calls.acme.payments.charge", Sequence: 123456, Time: now},
		Attempts: []schemas.Attempt{{N: 1, Started: now, Ended: now.Add(130 * time.Millisecond), Code: "OK", Phase: "answered", Reached: true,
			Decision: "settle succeeded"}},
	}
	r.DownstreamKey = r.Call
	r.Outcome = &schemas.Outcome{V: 1, ID: r.Call + ".0", Tenant: r.Tenant, Lane: r.Lane, Run: r.Run, Tool: r.Tool, Call: r.Call,
		Key: r.Key, Fingerprint: r.Fingerprint, ToolCallID: r.ToolCallID, Status: schemas.Succeeded, NextAction: schemas.Return,
		Content: []schemas.Content{{Type: "text", Text: noise(n)}}, Attempts: r.Attempts,
		Budget: schemas.Budget{Attempts: schemas.Usage{Used: 3, Limit: 100}, SideEffects: schemas.Usage{Used: 1, Limit: 20}, ElapsedMS: schemas.Usage{Used: 4000, Limit: 3600000}},
		Timing: schemas.Timing{Published: now, Deadline: r.Deadline, Settled: now}}
	return r
}

// noise is a result of 300 bytes that does not compress, as JSON of real tools does not.
func noise(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < 300; i++ {
		fmt.Fprintf(&b, "%x", sha256.Sum256(fmt.Appendf(nil, "%d.%d", n, i)))
	}
	return b.String()[:300]
}

func put(t *testing.T, l *bolt.Ledger, r *dedupe.Record) {
	t.Helper()
	_, err := l.Update(context.Background(), r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r} })
	if err != nil {
		t.Fatal(err)
	}
}

// fill imports n settled records.
func fill(t *testing.T, l *bolt.Ledger, from, n int) {
	t.Helper()
	records := make([]*dedupe.Record, n)
	for i := range records {
		records[i] = settled(from + i)
	}
	if err := l.Import(context.Background(), records); err != nil {
		t.Fatal(err)
	}
}

// TestHolder holds the ledger named by the environment until its input ends. It is run
// by TestB59LockedByAnotherProcess in a process of its own.
const holderEnv = "BOLT_TEST_HOLD"

func TestHolder(t *testing.T) {
	path := os.Getenv(holderEnv)
	if path == "" {
		path = filepath.Join(t.TempDir(), "l.db") // run by itself: just open and close
	}
	open(t, path, bolt.Options{Create: true})
	if os.Getenv(holderEnv) != "" {
		fmt.Println("held")
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}

// B59: a ledger held by another process is an error within 2 s, not a hang.
func TestB59LockedByAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	cmd := exec.Command(os.Args[0], "-test.run", "TestHolder")
	cmd.Env = append(os.Environ(), holderEnv+"="+path)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	if n, err := out.Read(make([]byte, 16)); n == 0 {
		t.Fatal("holder did not start", err)
	}
	started := time.Now()
	_, err := bolt.Open(path, bolt.Options{Retention: retention})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "held by another process") {
		t.Errorf("error %v", err)
	}
	if errors.Is(err, bolt.ErrDamaged) {
		t.Error("a lock is not damage")
	}
	if took := time.Since(started); took > 3*time.Second {
		t.Errorf("took %s", took)
	}
}

// B60: a damaged ledger is refused, named, kept, and never replaced by an empty one.
func TestB60Damaged(t *testing.T) {
	dir := t.TempDir()
	healthy := filepath.Join(dir, "healthy.db")
	l := open(t, healthy, bolt.Options{Create: true})
	fill(t, l, 0, 6000)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(healthy)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{"both metas zeroed": zero(data, 0, 2), "cut in half": data[:len(data)/2], "empty": {}, "one byte": {1}, "text": []byte(strings.Repeat("no ledger\n", 5000))}
	for _, p := range livePages(t, healthy) {
		damage[fmt.Sprintf("%s page %d zeroed", p.Type, p.ID)] = zero(data, p.ID, 1)
		damage[fmt.Sprintf("%s page %d leads nowhere", p.Type, p.ID)] = astray(data, p.ID, 16)
		if p.Type == "branch" {
			damage[fmt.Sprintf("the keys of branch page %d are elsewhere", p.ID)] = astray(data, p.ID, 4)
			damage[fmt.Sprintf("branch page %d leads to itself", p.ID)] = put32(data, p.ID, 16+8, uint32(p.ID))
			damage[fmt.Sprintf("branch page %d leads to the first bucket", p.ID)] = put32(data, p.ID, 16+8, 3)
		}
		for name, by := range map[string]uint32{"one more page": 1, "a million more pages": 1 << 20, "all the pages there could be": math.MaxUint32} {
			damage[fmt.Sprintf("%s page %d has %s", p.Type, p.ID, name)] = put32(data, p.ID, 12, by)
		}
		damage[fmt.Sprintf("%s page %d has lost an entry", p.Type, p.ID)] = put16(data, p.ID, 10, get16(data, p.ID, 10)-1)
		damage[fmt.Sprintf("%s page %d has an entry more", p.Type, p.ID)] = put16(data, p.ID, 10, get16(data, p.ID, 10)+1)
		damage[fmt.Sprintf("a key of %s page %d is too long", p.Type, p.ID)] = put16(data, p.ID, 16+map[string]int{"branch": 4, "leaf": 8}[p.Type]+2, 0x4000)
	}
	maps.DeleteFunc(damage, func(_ string, bytes []byte) bool { return string(bytes) == string(data) })
	for name, bytes := range damage {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "l.db")
			if err := os.WriteFile(path, bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := bolt.Open(path, bolt.Options{Retention: retention, Create: true})
			if !errors.Is(err, bolt.ErrDamaged) || !strings.Contains(err.Error(), "tollgate serve --recover") || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v", err)
			}
			if kept, _ := os.ReadFile(path); len(kept) != len(bytes) || string(kept) != string(bytes) {
				t.Error("the damaged file was changed")
			}
			// The lock is free again: the second answer comes at once.
			if _, again := bolt.Open(path, bolt.Options{Retention: retention}); !errors.Is(again, bolt.ErrDamaged) {
				t.Errorf("second open: %v", again)
			}
		})
	}
	if len(damage) < 20 {
		t.Errorf("only %d kinds of damage tried", len(damage))
	}
}

func zero(data []byte, page, n int) []byte {
	out := append([]byte(nil), data...)
	clear(out[page*os.Getpagesize() : (page+n)*os.Getpagesize()])
	return out
}

// astray spoils the first bytes of each of a page's entries, which have sixteen.
func astray(data []byte, page, n int) []byte {
	out := append([]byte(nil), data...)
	const header, entry = 16, 16
	at := page * os.Getpagesize()
	for range binary.LittleEndian.Uint16(out[at+10:]) { // how many there are
		at += entry
		copy(out[at-entry+header:][:n], "\xff\xff\xff\x3f\xff\xff\xff\x3f\xff\xff\xff\x3f\xff\xff\xff\x3f")
	}
	return out
}

func put32(data []byte, page, at int, v uint32) []byte {
	out := append([]byte(nil), data...)
	binary.LittleEndian.PutUint32(out[page*os.Getpagesize()+at:], v)
	return out
}

func put16(data []byte, page, at int, v uint16) []byte {
	out := append([]byte(nil), data...)
	binary.LittleEndian.PutUint16(out[page*os.Getpagesize()+at:], v)
	return out
}

func get16(data []byte, page, at int) uint16 {
	return binary.LittleEndian.Uint16(data[page*os.Getpagesize()+at:])
}

// B60: whatever byte of the file changes, it is refused, or it has every record as it was.
// The calls in flight have arguments that go on for pages.
func TestB60AnyByte(t *testing.T) {
	dir := t.TempDir()
	healthy := filepath.Join(dir, "healthy.db")
	l := open(t, healthy, bolt.Options{Create: true})
	fill(t, l, 0, 400)
	for n := range 20 {
		r := settled(1000 + n)
		r.State, r.Outcome, r.Settled, r.Due = dedupe.InFlight, nil, time.Time{}, r.Deadline
		r.Request = &schemas.Request{Tenant: r.Tenant, Tool: r.Tool, Run: r.Run, Body: []byte(`"` + strings.Repeat(noise(n), 30) + `"`)}
		put(t, l, r)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(healthy)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	path, refused := filepath.Join(dir, "l.db"), 0
	for range 600 / scale {
		spoilt := append([]byte(nil), data...)
		// The two pages before that say which commit was the last, and whether it was whole: a
		// changed one cannot be told from a commit that a crash has cut off.
		at, with := 2*os.Getpagesize()+rnd.IntN(len(data)-2*os.Getpagesize()), byte(1+rnd.IntN(255))
		if at%os.Getpagesize() > 256 && rnd.IntN(2) == 0 { // where a page says what is in it matters most
			at -= at%os.Getpagesize() - rnd.IntN(256)
		}
		spoilt[at] ^= with
		if err := os.WriteFile(path, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := bolt.Open(path, bolt.Options{Retention: retention})
		if err != nil {
			refused++
			if !errors.Is(err, bolt.ErrDamaged) && !strings.Contains(err.Error(), "format") {
				t.Errorf("byte %d changed by %#x: %v", at, with, err)
			}
			continue
		}
		if s := l.Stats(); s.Terminal != 400 || s.Live != 20 {
			t.Errorf("byte %d changed by %#x: %+v", at, with, s)
		}
		for n := range 400 {
			if _, err := l.Record(settled(n).Call); err != nil {
				t.Errorf("byte %d changed by %#x: %v", at, with, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Errorf("byte %d changed by %#x: closing: %v", at, with, err)
		}
	}
	if refused < 60/scale {
		t.Errorf("%d of %d refused", refused, 600/scale)
	}
}

type page struct {
	Type string
	ID   int
}

// livePages samples the pages that hold something start-up needs.
func livePages(t *testing.T, path string) []page {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out []page
	_ = db.View(func(tx *bbolt.Tx) error {
		leaves := 0
		for id := 2; ; {
			p, err := tx.Page(id)
			if err != nil || p == nil {
				return err
			}
			if p.Type == "leaf" {
				leaves++
			}
			if p.Type == "branch" || p.Type == "freelist" || p.Type == "leaf" && leaves%40 == 1 {
				out = append(out, page{p.Type, p.ID})
			}
			id += 1 + p.OverflowCount
		}
	})
	return out
}

// A record whose bytes changed on the disk is never given out.
func TestRecordChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l := open(t, path, bolt.Options{Create: true})
	r := settled(1)
	put(t, l, r)
	l.Close()
	spoil(t, path, r.Call)
	if _, err := bolt.Open(path, bolt.Options{Retention: retention}); !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("a ledger with a damaged record: %v", err)
	}
	spoil(t, path, r.Call) // a second time is as it was
	l = open(t, path, bolt.Options{})
	spoil(t, path, r.Call)
	if got, err := l.Record(r.Call); !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("record %v, error %v", got, err)
	}
	ran := false
	_, err := l.Update(context.Background(), r.Ref(), func(dedupe.View) dedupe.Change { ran = true; return dedupe.Change{} })
	if ran || !errors.Is(err, dedupe.ErrUnavailable) || !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("a mutation on a damaged record: ran %v, error %v", ran, err)
	}
	put(t, l, settled(2)) // others go on
}

// spoil changes a bit of every copy of a record in the file, old pages included.
func spoil(t *testing.T, path, call string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; ; at++ {
		i := strings.Index(string(data[at:]), call)
		if i < 0 {
			break
		}
		at += i
		if _, err := f.WriteAt([]byte{data[at+100] ^ 1}, int64(at+100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	_, err := bolt.Open(path, bolt.Options{Retention: retention})
	if err == nil || !strings.Contains(err.Error(), "--recover") || errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made")
	}
	if _, err := bolt.Open(path, bolt.Options{Create: true}); err == nil {
		t.Error("no retention: want an error")
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if open(t, path, bolt.Options{Create: true}); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
