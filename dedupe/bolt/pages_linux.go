package bolt

import "syscall"

// advice is how a range of the mapped file will be used.
type advice int

const (
	readAhead   advice = syscall.MADV_SEQUENTIAL
	readOne     advice = syscall.MADV_RANDOM // as bbolt asks for when it maps a file
	forgetPages advice = syscall.MADV_DONTNEED
)

// adviseRange needs the range to be mapped from a file: of other memory, to forget
// would be to erase.
func adviseRange(at, size uintptr, a advice) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, size, uintptr(a))
}
