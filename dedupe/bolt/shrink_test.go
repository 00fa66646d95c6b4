package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/dedupe/bolt"
)

// spacious makes a ledger that has a hundred records, and room for three thousand.
func spacious(t *testing.T) (path string) {
	path = filepath.Join(t.TempDir(), "l.db")
	synctest.Test(t, func(t *testing.T) {
		l := open(t, path, bolt.Options{Create: true, Retention: time.Second, Sync: time.Hour})
		fill(t, l, 0, 3000)
		time.Sleep(time.Minute)
		fill(t, l, 3000, 100)
		if s := l.Stats(); s.Terminal != 100 {
			t.Fatalf("%+v", s)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return path
}

// A ledger that is free for the most part is made anew at the start: everything is still
// in it, under the same name, with the same owner and mode, and a link to it is one still.
func TestAFileThatIsFreeForTheMostPartIsMadeAnew(t *testing.T) {
	path := spacious(t)
	link := filepath.Join(t.TempDir(), "link.db")
	before, err := os.Stat(path)
	if err := errors.Join(err, os.Symlink(path, link), os.Chmod(path, 0o640), os.WriteFile(path+".shrunk", []byte("left from a crash"), 0o600)); err != nil {
		t.Fatal(err)
	}
	o := bolt.Options{Retention: 100 * 365 * 24 * time.Hour}
	l := open(t, link, o) // too small to matter
	id, epoch := l.ID(), l.Epoch()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(before, now) {
		t.Fatalf("a small file was replaced, %v", err)
	}
	l = open(t, link, bolt.ShrinkingAt(o, 1))
	after, err := os.Stat(path)
	if err != nil || os.SameFile(before, after) || after.Size() > before.Size()/3 || after.Mode().Perm() != 0o640 {
		t.Errorf("%v of %d bytes, where there were %d, %v", after.Mode(), after.Size(), before.Size(), err)
	}
	if s := l.Stats(); s.Terminal != 100 || l.ID() != id || l.Epoch() != epoch+1 {
		t.Errorf("%+v, ledger %s of %s, epoch %d after %d", s, l.ID(), id, l.Epoch(), epoch)
	}
	put(t, l, settled(9000))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l = open(t, path, bolt.ShrinkingAt(o, 1)); l.Stats().Terminal != 101 {
		t.Errorf("what was put into the new file is not there: %+v", l.Stats())
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// A file that cannot be replaced goes on as it is.
func TestAFileThatCannotBeReplacedGoesOn(t *testing.T) {
	path := spacious(t)
	if err := os.MkdirAll(filepath.Join(path+".shrunk", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := open(t, path, bolt.ShrinkingAt(bolt.Options{Retention: 100 * 365 * 24 * time.Hour}, 1))
	if s := l.Stats(); s.Terminal != 100 {
		t.Errorf("%+v", s)
	}
	put(t, l, settled(9000))
}

// Who waits for the lock of a file that is replaced meanwhile gets the one that has the
// name now: on the other it would be a second owner of the ledger.
func TestWhoWaitedForAReplacedFileOpensTheOneInItsPlace(t *testing.T) {
	path := spacious(t)
	o := bolt.Options{Retention: time.Hour, LockTimeout: time.Minute}
	holder, _, err := bolt.OpenFile(path, o)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan os.FileInfo, 1)
	go func() {
		db, file, err := bolt.OpenFile(path, o)
		if err != nil {
			t.Error(err)
			got <- nil
			return
		}
		info, err := file.Stat()
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
		got <- info
	}()
	time.Sleep(200 * time.Millisecond) // it has opened the file and tries to lock it
	data, err := os.ReadFile(path)
	if err := errors.Join(err, os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path), holder.Close()); err != nil {
		t.Fatal(err)
	}
	named, err := os.Stat(path)
	if info := <-got; err != nil || info == nil || !os.SameFile(info, named) {
		t.Errorf("it opened the file that was replaced, %v", err)
	}
}
