// Package exec runs tools that are commands: one process per attempt, the
// arguments as JSON on its standard input, the result on its standard output.
//
// A command is a vector, never a line for a shell. It gets a clean environment and
// no descriptor but its three, and leads a process group of its own: when it ends
// or its time is up, whatever is left of the group is killed. Something that left
// the group on purpose (setsid) cannot be found again; that it still held the
// output is reported.
package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// Codes of commands that could not be started or did not end by themselves.
const (
	CodeForkFailed = "FORK_FAILED"       // no process, memory or descriptor left, for now
	CodeNoCommand  = "COMMAND_NOT_FOUND" // or not executable
	CodeNotStarted = "COMMAND_NOT_STARTED"
	CodeSignalled  = "SIGNALLED"
	CodeLostChild  = "EXIT_STATUS_LOST"
)

// outsiders is how long the output of an ended command is waited for when a process
// outside its group still holds it.
const outsiders = 500 * time.Millisecond

var _ dispatcher.Executor = (*Executor)(nil)

// Executor runs one command.
type Executor struct {
	spec Spec
	path string
	args []template
	env  []string
}

// New checks the spec and makes its executor. From here on no descriptor that this
// process has inherited is passed on to a command.
func New(s Spec) (*Executor, error) {
	e, err := s.compile()
	if err != nil {
		return nil, err
	}
	if err := keepDescriptors(); err != nil {
		return nil, fmt.Errorf("exec tool: keeping descriptors from commands: %w", err)
	}
	return e, nil
}

// Execute runs the command once.
func (e *Executor) Execute(ctx context.Context, in dispatcher.Invocation) classify.Verdict {
	args, err := expand(e.args, in.Arguments)
	if err != nil {
		v := classify.Refused(classify.NotSent, schemas.CodeInvalidArguments, err.Error())
		v.For = classify.ForRepair
		return v
	}
	if ctx.Err() != nil {
		return classify.Ended(ctx.Err(), context.Cause(ctx), classify.NotSent)
	}
	out, errs := newCapture(e.spec.MaxResult), &tail{max: maxTail}
	cmd := &exec.Cmd{
		Path: e.path, Args: append([]string{e.spec.Command[0]}, args...), Dir: e.spec.Dir, Env: append(environment(in), e.env...),
		Stdin: bytes.NewReader(in.Arguments), Stdout: out, Stderr: errs, WaitDelay: outsiders,
	}
	lead(cmd)
	if err := cmd.Start(); err != nil {
		return unstarted(err)
	}
	cut := e.supervise(ctx, cmd.Process.Pid)
	collected := time.Now()
	_ = cmd.Wait() // what it would say is in the state and the captures
	return e.judge(ended{ctx: ctx, cut: cut, held: time.Since(collected) >= outsiders, state: cmd.ProcessState, out: out, errs: errs})
}

// supervise waits for the command to end and reports whether ctx ended first. The
// group gets a chance to stop, then none. Its leader is left for Wait to collect, so
// that its number still names this group, and no other call's, when it is killed.
func (e *Executor) supervise(ctx context.Context, pid int) (cut bool) {
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(pid)
	}()
	select {
	case <-exited:
	case <-ctx.Done():
		cut = true
		signalGroup(pid, syscall.SIGTERM)
		grace := time.NewTimer(e.spec.Grace)
		defer grace.Stop()
		select {
		case <-exited:
		case <-grace.C:
			signalGroup(pid, syscall.SIGKILL)
			<-exited
		}
	}
	signalGroup(pid, syscall.SIGKILL)
	return cut
}

// unstarted judges a command that did not come to be. What is short now may not be
// later; what is missing will not appear.
func unstarted(err error) classify.Verdict {
	is := func(list ...syscall.Errno) bool {
		for _, e := range list {
			if errors.Is(err, e) {
				return true
			}
		}
		return false
	}
	switch {
	case is(syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY):
		return classify.Unsent(CodeForkFailed, "the command could not be started: the machine is short of processes, memory or descriptors")
	case is(syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.ENOTDIR):
		return classify.Refused(classify.NotSent, CodeNoCommand, "the command or its working directory does not exist or may not be used")
	case is(syscall.E2BIG):
		v := classify.Refused(classify.NotSent, schemas.CodeTooLarge, "the command's argument list is longer than the system allows")
		v.For = classify.ForRepair
		return v
	}
	return classify.Unknown(classify.NotSent, CodeNotStarted, "the command could not be started")
}

// ended is everything known of a command that is over.
type ended struct {
	ctx   context.Context // of the attempt, to ask for its cause
	cut   bool            // ctx ended first
	held  bool            // something still held the output when the group was gone
	state *os.ProcessState
	out   *capture
	errs  *tail
}

func (e *Executor) judge(x ended) classify.Verdict {
	switch {
	case x.out.flooded || x.cut && x.out.tooLarge():
		v := x.out.oversize() // never repeated, but it did not end by itself: nobody knows
		v.Phase = classify.NoAnswer
		return v
	case x.cut:
		v := classify.Ended(x.ctx.Err(), context.Cause(x.ctx), classify.NoAnswer)
		return e.remark(v, x, x.out.kept)
	case x.state == nil:
		return classify.Lost(CodeLostChild, "the command's exit status was lost")
	}
	if s, ok := x.state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return e.remark(classify.Lost(CodeSignalled, "the command was ended by signal "+s.Signal().String()), x, nil)
	}
	stdout := x.out.kept
	if x.out.tooLarge() {
		if x.state.Success() {
			return x.out.oversize()
		}
		stdout = nil // the exit code alone decides
	}
	if !x.state.Success() {
		stdout = []byte(e.hide(string(stdout)))
	}
	v := classify.Exec(x.state.ExitCode(), stdout, e.spec.Rules)
	if v.OK() {
		return v
	}
	return e.remark(v, x, nil)
}

// remark adds for people what the command said, without the values of its own
// environment, which may be secrets.
func (e *Executor) remark(v classify.Verdict, x ended, stdout []byte) classify.Verdict {
	say := func(what string, text []byte) {
		if s := strings.TrimSpace(e.hide(strings.ToValidUTF8(string(text), "\uFFFD"))); s != "" {
			v.Message += fmt.Sprintf("; %s: %s", what, s)
		}
	}
	say("output so far", stdout[max(0, len(stdout)-maxTail):])
	say("its last words", x.errs.kept)
	if x.held {
		v.Message += "; a process that left its group still held its output"
	}
	return v
}

func (e *Executor) hide(text string) string {
	for _, value := range e.spec.Env {
		if len(value) >= 4 { // shorter ones would blank out innocent words
			text = strings.ReplaceAll(text, value, "[redacted]")
		}
	}
	return text
}
