package worldtest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate/internal/natstest"
)

// Cut makes the dispatcher's connection break at the n-th write that matches.
func (w *World) Cut(prefix string, n int, kind natstest.Cut) *natstest.CutOn {
	w.T.Helper()
	c := &natstest.CutOn{Provider: w.Node, Match: natstest.Publishes(prefix), N: n, Kind: kind}
	w.Again(func() { w.Provider = c })
	return c
}

// Count counts the dispatcher's writes that contain what is looked for.
func (w *World) Count(what string) *natstest.CutOn {
	w.T.Helper()
	c := &natstest.CutOn{Provider: w.Node, N: 1 << 40, Match: func(b []byte) bool { return bytes.Contains(b, []byte(what)) }}
	w.Again(func() { w.Provider = c })
	return c
}

// CrashAt waits for the fault and takes the process away at that instant.
func (w *World) CrashAt(c *natstest.CutOn, within time.Duration) {
	w.T.Helper()
	w.Until(within, "the fault", c.Fired)
	w.Crash()
	w.Provider = nil
}

// Crash takes the dispatcher away as kill -9 does: its connection is gone, its
// running attempts answer nobody, and the next process finds the ledger file as it
// was at that instant. The old process's own copy never touches the new one.
func (w *World) Crash() {
	w.T.Helper()
	w.App.Conn().Close()
	w.CrashFrom(w.Ledger())
}

// CrashFrom is Crash at an instant that is over: the process is cut off already, and
// the next one finds the ledger file as the given copy of it is.
func (w *World) CrashFrom(ledger string) {
	w.T.Helper()
	if old := w.App; old != nil {
		old.Conn().Close()
		w.T.Cleanup(func() {
			old.Stop()
			_ = old.Wait()
		})
	}
	w.App = nil
	was := w.Ledger()
	w.crashes++
	to := w.Ledger()
	copyFile(w.T, ledger, to)
	w.Config = ReplaceOnce(w.T, w.Config, strconv.Quote(was), strconv.Quote(to))
}

// Ledger is the path of the ledger file, another one after every crash.
func (w *World) Ledger() string {
	if w.crashes == 0 {
		return filepath.Join(w.Dir, "ledger.db")
	}
	return filepath.Join(w.Dir, "ledger"+strconv.Itoa(w.crashes)+".db")
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// ReplaceOnce replaces what must be in s just once.
func ReplaceOnce(t *testing.T, s, old, with string) string {
	t.Helper()
	if strings.Count(s, old) != 1 {
		t.Fatalf("%q is not there exactly once", old)
	}
	return strings.Replace(s, old, with, 1)
}
