package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache has the system forget what it holds of a file.
func dropCache(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
