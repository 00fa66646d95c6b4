//go:build unix

package bolt

import (
	"os"
	"syscall"
)

// unlock gives up the lock of a file bbolt panicked on while opening. Closing it is
// not enough: the memory map that is left behind keeps the lock.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
