//go:build unix

package owner

import (
	"fmt"
	"os"
	"syscall"
)

// FileID names a file on this machine: a copy of it, or the same name on another
// machine, has another. "" when it cannot be told.
func FileID(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	host, err := os.Hostname()
	if !ok || err != nil {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", host, st.Dev, st.Ino)
}
