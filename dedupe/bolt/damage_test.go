package bolt_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
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
		}
	}
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
	data, _ := os.ReadFile(path)
	for at := 0; ; at++ { // every copy of the record, old pages included
		i := strings.Index(string(data[at:]), r.Call)
		if i < 0 {
			break
		}
		at += i
		data[at+100] ^= 1
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, bolt.Options{})
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
