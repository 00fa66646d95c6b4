package exec_test

import (
	"context"
	osexec "os/exec"
	"testing"
	"time"

	"tollgate/tools/exec"
)

// B78: a reaper that runs by takes no exit code from a child that somebody waits
// for, however late its owner comes.
func TestReaperLeavesWaitedForChildren(t *testing.T) {
	child := osexec.Command("/bin/sh", "-c", "exit 7")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond) // two intervals and more
	defer cancel()
	if err := exec.Reap(ctx); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if child.ProcessState == nil || child.ProcessState.ExitCode() != 7 {
		t.Errorf("the child ended as %v, want exit status 7", child.ProcessState)
	}
}
