package badinput

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// badFiles are ledgers and stores that the program must neither serve from nor change.
func badFiles(t *testing.T, b *table) {
	p := newProgram(t, "ledger.db", "nats", "http://127.0.0.1:1")
	p.start()
	p.stop()
	ledger := filepath.Join(p.dir, "ledger.db")
	good, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at, n int) []byte {
		v := bytes.Clone(good)
		for i := at; i < at+n; i++ {
			v[i] ^= 0xff
		}
		return v
	}
	for _, c := range []struct {
		name, want string
		content    []byte
	}{
		{"a ledger that is empty", "it is empty", nil},
		{"a ledger cut off in the middle", "ledger", good[:len(good)/2]},
		{"a ledger of its first page", "ledger", good[:4096]},
		{"a ledger of 100 bytes", "ledger", good[:100]},
		{"a ledger that is something else", "ledger", bytes.Repeat([]byte("SQLite format 3\x00"), 4096)},
		{"a ledger whose two meta pages are damaged", "ledger", flip(16, 8192-16)},
		{"a ledger whose pages are damaged", "ledger", flip(8192, len(good)-8192)},
	} {
		if err := os.WriteFile(ledger, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		refusesToServe(t, b, p, c.name, c.want)
		if now, err := os.ReadFile(ledger); err != nil || !bytes.Equal(now, c.content) {
			t.Errorf("%s: it was changed (%v)", c.name, err)
		}
	}
	if err := os.WriteFile(ledger, good, 0o600); err != nil {
		t.Fatal(err)
	}
	badPlaces(t, b, p, ledger)
	p.start() // after all that, the good one still serves
	defer p.kill()
	second := newProgram(t, ledger, filepath.Join(p.dir, "other"), "http://127.0.0.1:1")
	refusesToServe(t, b, second, "a ledger that another process holds", "held by another process")
	second = newProgram(t, "other.db", filepath.Join(p.dir, "nats"), "http://127.0.0.1:1")
	refusesToServe(t, b, second, "a store that another process holds", "")
}

// badPlaces puts other things where the ledger and the store should be.
func badPlaces(t *testing.T, b *table, p *program, ledger string) {
	aside := ledger + ".aside"
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(ledger, aside)
	refusesToServe(t, b, p, "a ledger that is missing, with streams that know it", "there was no ledger file")
	if _, err := os.Stat(ledger); err == nil {
		t.Error("an empty ledger was left in the place of the missing one")
	}
	for _, c := range []struct {
		name string
		make func() error
	}{
		{"a directory in the ledger's place", func() error { return os.Mkdir(ledger, 0o700) }},
		{"a link to nowhere in the ledger's place", func() error { return os.Symlink("/nowhere/at/all", ledger) }},
		{"a device in the ledger's place", func() error { return os.Symlink("/dev/full", ledger) }},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		refusesToServe(t, b, p, c.name, "ledger")
		if err := os.Remove(ledger); err != nil {
			t.Fatal(err)
		}
	}
	move(aside, ledger)
	store := filepath.Join(p.dir, "nats")
	move(store, store+".aside")
	if err := os.WriteFile(store, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusesToServe(t, b, p, "a file in the store's place", "nats")
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	move(store+".aside", store)
}

// refusesToServe fails unless the program ends by itself with an error that says why.
func refusesToServe(t *testing.T, b *table, p *program, name, want string) {
	t.Helper()
	if err := p.log.Truncate(0); err != nil {
		t.Fatal(err)
	}
	where, exit := p.verdict(patience)
	if exit != 1 || bytes.Contains(p.said(), []byte("goroutine ")) {
		t.Errorf("%s: exit code %d: %s", name, exit, p.said())
	}
	b.expect(t, "file", name, where, want, fmt.Sprintf("exit code %d: ", 1))
}
