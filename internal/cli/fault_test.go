package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
)

// Only what has to do with the server is said to be the server's fault.
func TestWhatIsTheNetworks(t *testing.T) {
	taken := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tc := range []struct {
		err  error
		want int
	}{
		{&fs.PathError{Op: "mkdir", Path: "/nonexistent", Err: syscall.ENOENT}, exitFailure},
		{&fs.PathError{Op: "write", Path: "ledger.db", Err: syscall.ENOSPC}, exitFailure},
		{syscall.EACCES, exitFailure},
		{taken, exitFailure},
		{refused, exitUnreachable},
		{errors.Join(&fs.PathError{Op: "close", Err: syscall.EIO}, refused), exitUnreachable},
		{nats.ErrNoServers, exitUnreachable},
		{nats.ErrConnectionClosed, exitUnreachable},
		{context.DeadlineExceeded, exitUnreachable},
		{nats.ErrAuthorization, exitDenied},
	} {
		s := &shell{env: func(string) string { return "" }, started: true}
		if f := s.explain(t.Context(), fmt.Errorf("doing something: %w", tc.err)); f.code != tc.want {
			t.Errorf("%v: exit code %d, want %d: %s", tc.err, f.code, tc.want, f.what)
		}
	}
}
