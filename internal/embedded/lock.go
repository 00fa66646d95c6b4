package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lockDir takes the store directory for this process. The server itself would let
// a second one open the same streams. The kernel frees the lock when the process
// dies, however it dies.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS: opening the lock file: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = writePID(f)
	} else if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("embedded NATS: the store directory %s is in use by %s: stop that process, or give this one a directory of its own", dir, holder(f))
	} else {
		err = fmt.Errorf("embedded NATS: locking %s (does its file system have locks?): %w", f.Name(), err)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// writePID leaves a name for whoever is refused.
func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("embedded NATS: writing the lock file: %w", err)
	}
	if _, err := fmt.Fprintf(f, "%d\n", os.Getpid()); err != nil {
		return fmt.Errorf("embedded NATS: writing the lock file: %w", err)
	}
	return nil
}

func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return "process " + pid
	}
	return "another process"
}
