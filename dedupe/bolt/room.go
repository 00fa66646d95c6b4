package bolt

import "go.etcd.io/bbolt"

const (
	// leastRoom is made at a time in a small file, grow in a big one.
	leastRoom = 256 << 10
	// blank is how much of it is written at once.
	blank = 256 << 10
)

// makeRoom fills the file with zeros ahead of its last page when little is left that
// was filled before. A commit that puts pages there overwrites, and its sync waits for
// those pages; in a hole it would wait for the file system's journal too, and for what
// else of the disk's goes along with it. That halves such a sync. Nobody else uses that
// part of the file: only write transactions take pages of it, and tx is the one there is.
func (l *Ledger) makeRoom(tx *bbolt.Tx) {
	used := tx.Size()
	step := min(max(used, leastRoom), grow)
	if l.options.Sync > 0 || l.room-used > step/4 {
		return
	}
	end := used + step
	if most := int64(l.options.maxSize); most > 0 {
		end = max(used, min(end, most))
	}
	var err error
	zeros := make([]byte, min(blank, end-used))
	for at := max(l.room, used); at < end && err == nil; at += blank {
		_, err = l.file.WriteAt(zeros[:min(blank, end-at)], at)
	}
	// What cannot be written stays a hole, as slow as one and no worse: whether there
	// is room for a commit is for the commit to say. The next step is tried again.
	if err == nil {
		_ = l.file.Sync()
	}
	l.room = end
}
