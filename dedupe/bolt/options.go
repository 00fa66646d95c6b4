package bolt

import (
	"errors"
	"time"
)

// ErrDamaged is wrapped by every error that says the file cannot be trusted. The
// file is left as it is.
var ErrDamaged = errors.New("ledger file is damaged")

// defaultLockTimeout is how long another process may hold the file before Open
// gives up.
const defaultLockTimeout = 2 * time.Second

// Options configure a ledger.
type Options struct {
	// Sync is how often commits reach the disk. 0 syncs each one before it is
	// answered: nothing acknowledged is lost at a power failure. Above 0, what was
	// committed since the last sync may be.
	Sync time.Duration
	// Retention is how long a settled call is remembered. Required.
	Retention time.Duration
	// KeepPublished is how long a published result or audit entry stays owed in the
	// file, so that it is published again after a crash: longer than the server
	// may hold it in memory only. 0: the server's answer means that it is on disk.
	KeepPublished time.Duration
	// LockTimeout is how long to wait for another process to release the file.
	// 0 is 2 s.
	LockTimeout time.Duration
	// Horizon is set when a lost ledger is rebuilt: calls published before it may
	// have run although the ledger does not know them. It is kept in the file.
	Horizon time.Time
	// Create makes a new ledger when the file does not exist. Without it a missing
	// file is an error: an empty ledger would run known calls again.
	Create bool

	// Commit, for tests, stands around every commit of changes: it may refuse it, make
	// it and report that it failed, or take the process away. nil: nothing does.
	Commit func(commit func() error) error
	// For tests.
	maxSize  int   // most bytes the file may grow to; 0 is no limit
	shrinkAt int64 // leastShrunk, where not 0
}

func (o Options) validate() error {
	if o.Retention <= 0 {
		return errors.New("bolt: Options.Retention must be above 0: settled calls have to be remembered for some time")
	}
	if o.Sync < 0 || o.LockTimeout < 0 {
		return errors.New("bolt: Options.Sync and Options.LockTimeout must not be negative")
	}
	return nil
}

func (o Options) lockTimeout() time.Duration {
	if o.LockTimeout == 0 {
		return defaultLockTimeout
	}
	return o.LockTimeout
}

func (o Options) leastShrunk() int64 {
	if o.shrinkAt == 0 {
		return leastShrunk
	}
	return o.shrinkAt
}
