package bolt

import (
	"errors"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// leastShrunk is the size in bytes below which a file is left as it is.
const leastShrunk = 32 << 20

// shrink makes a file whose pages are free for the most part anew, without them, and opens
// that. A file never gives free pages back, and bbolt takes those it needs from all over it:
// a ledger that once had a hundred thousand calls at a time would read and map all of that
// for the few it has now.
//
// The file is replaced while it is locked, by a copy that is on the disk: whoever waited
// for the lock finds that its name leads elsewhere now ([openFile]), and after a crash
// there is one of the two. Where it cannot be replaced (no room, a file that is mounted by
// itself, another owner's) it goes on as it is.
func shrink(path string, o Options, db *bbolt.DB, file *os.File) (*bbolt.DB, *os.File, error) {
	if !spacious(db, o.leastShrunk()) {
		return db, file, nil
	}
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return db, file, nil
	}
	tmp := to + ".shrunk" // whoever has the lock makes one: what is there is left from a crash
	os.Remove(tmp)
	defer os.Remove(tmp)
	if compact(tmp, db) != nil || sameAccess(tmp, to) != nil || os.Rename(tmp, to) != nil {
		return db, file, nil
	}
	if err := errors.Join(syncDir(filepath.Dir(to)), db.Close()); err != nil {
		return nil, nil, err
	}
	return openFile(path, o)
}

// spacious reports whether more than half of a file of at least so many bytes is free.
func spacious(db *bbolt.DB, least int64) bool {
	used := int64(0)
	_ = db.View(func(tx *bbolt.Tx) error { used = tx.Size(); return nil })
	return used >= least && int64(db.Stats().FreePageN)*int64(db.Info().PageSize) > used/2
}
