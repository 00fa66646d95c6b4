package bolt_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"tollgate/dedupe/bolt"
)

// A commit finds the file written where it puts its pages: no hole is left for it to
// fill. What was committed is what the next start reads.
func TestCommitsMeetNoHole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	const n = 1500 // a file of some steps, the first ones small
	for _, from := range []int{0, n} {
		l := open(t, path, bolt.Options{Create: true})
		for i := from; i < from+n; i += 20 {
			fill(t, l, i, 20)
			if hole, size := firstHole(t, path); hole < size {
				t.Fatalf("after %d records the file has a hole at %d of %d bytes", i, hole, size)
			}
		}
		if got := l.Stats().Terminal; got != from+n {
			t.Errorf("%d records, want %d", got, from+n)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l := open(t, path, bolt.Options{})
	for i := range 2 * n {
		if _, err := l.Record(settled(i).Call); err != nil {
			t.Fatal(err)
		}
	}
}

// firstHole is the file's size when it has none.
func firstHole(t *testing.T, path string) (hole, size int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if hole, err = f.Seek(0, unix.SEEK_HOLE); err != nil {
		t.Fatal(err)
	}
	return hole, info.Size()
}
