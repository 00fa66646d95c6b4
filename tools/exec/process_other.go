//go:build !linux

package exec

import (
	"errors"
	"os/exec"
	"syscall"
)

// Waiting for a process without collecting it, which is what makes it safe to kill
// its group, is only to be had on Linux.
func keepDescriptors() error {
	return errors.New("exec tools need Linux; use an http or nats tool here")
}

func lead(*exec.Cmd)                  {}
func awaitExit(int)                   {}
func signalGroup(int, syscall.Signal) {}
