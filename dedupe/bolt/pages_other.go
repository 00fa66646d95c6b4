//go:build !linux

package bolt

// advice is how a range of the mapped file will be used.
type advice int

const (
	readAhead advice = iota
	readOne
	forgetPages
)

// adviseRange leaves it to the system what to keep.
func adviseRange(uintptr, uintptr, advice) {}
