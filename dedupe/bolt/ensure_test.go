package bolt_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"tollgate/dedupe/bolt"
)

// A directory is no damaged ledger: --recover would not help, and moving it away might
// hurt.
func TestADirectoryIsNoDamagedLedger(t *testing.T) {
	path := t.TempDir()
	_, err := bolt.Open(path, bolt.Options{Retention: retention, Create: true})
	if err == nil || !strings.Contains(err.Error(), path+" is a directory") || errors.Is(err, bolt.ErrDamaged) || strings.Contains(err.Error(), "--recover") {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(path); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
