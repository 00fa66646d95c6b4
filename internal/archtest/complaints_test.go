package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page of complaints names only tests that exist.
func TestComplaintsNameRealTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "COMPLAINTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)`).FindAllSubmatch(text, -1) {
			all[string(name[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile("`(Test[A-Za-z0-9]+)").FindAllStringSubmatch(string(page), -1) {
		if !all[name[1]] {
			t.Errorf("no test is called %s", name[1])
		}
	}
	if rows := strings.Count(string(page), "\n|") - 2; rows < 30 {
		t.Errorf("%d complaints", rows)
	}
}
