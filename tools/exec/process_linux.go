package exec

import (
	"math"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// lead makes the command the leader of its own process group.
func lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit returns once the process has ended, and leaves it to be collected.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// signalGroup signals the group that pid leads. An empty group is no error.
func signalGroup(pid int, s syscall.Signal) { _ = syscall.Kill(-pid, s) }

// keepDescriptors marks whatever this process holds beyond its standard three, so
// that no command gets it. Go marks its own; inherited ones are not marked.
func keepDescriptors() error {
	return unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}
