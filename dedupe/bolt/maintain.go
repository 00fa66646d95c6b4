package bolt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// Stats describe the ledger. Counts that only grow begin at Open.
type Stats struct {
	FileBytes     int64
	FreePages     int
	Live          int // records, those with an open slot included
	Terminal      int // records
	Runs          int
	Owed          int // results and audit entries not published
	Commits       uint64
	FailedCommits uint64
	LastCommit    time.Duration // how long it took, its changes included
	CommitError   error         // of the last commit; nil is well
	SyncError     error         // of the last sync; nil is well
	Expired       uint64        // records
	ExpiredRuns   uint64
	LastExpiry    time.Time // when something last expired
	LastSweep     time.Time // when runs were last looked at without an error
	SweepErrors   uint64
	SweepError    error // the last one

	CommitTime  time.Duration                 // of all commits together
	CommitTimes [len(CommitBounds) + 1]uint64 // commits that took at most each of CommitBounds, and more than the last
}

// CommitBounds are the times that commits are counted by.
var CommitBounds = [...]time.Duration{250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second}

// took books the time of a commit.
func (s *Stats) took(d time.Duration) {
	s.LastCommit = d
	s.CommitTime += d
	i := 0
	for i < len(CommitBounds) && d > CommitBounds[i] {
		i++
	}
	s.CommitTimes[i]++
}

// Stats returns the numbers as they are now.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	s := l.memory.stats
	s.Live, s.Terminal = len(l.memory.hot)+len(l.memory.parked), l.memory.terminal.count
	s.Runs, s.Owed = l.memory.runCount, len(l.memory.owed.entries)
	l.mu.Unlock()
	if info, err := os.Stat(l.path); err == nil {
		s.FileBytes = info.Size()
	}
	s.FreePages = l.db.Stats().FreePageN
	return s
}

func (l *Ledger) count(f func(*Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.memory.stats)
}

// Backup writes a consistent copy of the file as of now, while work goes on, and
// returns its size.
func (l *Ledger) Backup(w io.Writer) (n int64, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		n, err = tx.WriteTo(w)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("backup of ledger %s: %w", l.path, err)
	}
	return n, nil
}

// Compact writes the ledger without its free space to a new file, while work goes
// on. What is committed meanwhile is not in it, so it does not replace the ledger; one
// that is free for the most part is replaced when it is opened.
func (l *Ledger) Compact(dst string) error {
	return l.guard(func() error { return compact(dst, l.db) })
}

// compactTx bounds what one transaction of a compaction writes.
const compactTx = 1 << 20

func compact(dst string, src *bbolt.DB) (err error) {
	if _, statErr := os.Lstat(dst); statErr == nil {
		return fmt.Errorf("compacting into %s: it exists already; name a new file", dst)
	}
	defer func() {
		if err != nil {
			os.Remove(dst)
			err = fmt.Errorf("compacting into %s: %w", dst, err)
		}
	}()
	out, err := bbolt.Open(dst, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	if err := bbolt.Compact(out, src, compactTx); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dst))
}
