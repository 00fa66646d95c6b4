package cli_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The process that fills the ledger ends with the one that has started it, even when that
// is killed and can tell nobody.
func TestAKilledBenchmarkFillsNoLedger(t *testing.T) {
	dir := t.TempDir()
	said, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	parent := exec.Command("tollgate", "bench", "--retained", "3000000") // two minutes of filling
	parent.Env = append(os.Environ(), "TMPDIR="+dir)
	parent.Stderr = stderr
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	stderr.Close() // both processes have it: it is at its end when both have ended
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if found, _ := filepath.Glob(filepath.Join(dir, "*", "ledger.db")); len(found) > 0 {
			break
		}
		if time.Now().After(until) {
			t.Error("no ledger is being filled")
			break
		}
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, said)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(15 * time.Second):
		t.Error("the ledger is being filled for nobody")
	}
}
