//go:build soak

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The long soak, short: everything it does and checks, but for what needs half an
// hour to show.
func TestSoakMixedLoadForAMinute(t *testing.T) {
	out := t.TempDir()
	text, err := exec.Command("go", "run", ".", "-for", "60s", "-pace", "0.3", "-retention", "60s", "-rate", "60", "-seed", "1", "-out", out).CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(out, "tollgate.log"))
		t.Fatalf("%v\n%s\nthe end of tollgate's log:\n%s", err, text, log[max(0, len(log)-4000):])
	}
	t.Logf("%s", text)
	for _, name := range []string{"soak.csv", "soak.svg", "summary.txt"} {
		if data, err := os.ReadFile(filepath.Join(out, name)); err != nil || len(data) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
	if !strings.Contains(string(text), "verify green") {
		t.Error("nothing is said of verify")
	}
}
