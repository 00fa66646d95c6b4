//go:build unix

package bolt

import (
	"errors"
	"os"
	"syscall"
)

// sameAccess gives a file the owner and the mode of another.
func sameAccess(path, like string) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	if of, ok := info.Sys().(*syscall.Stat_t); ok {
		err = os.Chown(path, int(of.Uid), int(of.Gid))
	}
	return errors.Join(err, os.Chmod(path, info.Mode().Perm()))
}
