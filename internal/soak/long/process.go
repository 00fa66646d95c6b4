package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is one of the two programs under its supervisor: whatever ends it, it is
// started again.
type process struct {
	name  string
	make  func() *exec.Cmd
	ready func() bool // whether a started one serves
	log   *os.File
	fault func(format string, args ...any)

	mu      sync.Mutex // guards below
	cmd     *exec.Cmd  // nil: none runs
	serving time.Time  // zero: it does not serve yet
	asked   bool       // somebody asked this life to end
	closing bool
	lives   int
	refused int // lives that ended before they served, unasked
	done    chan struct{}
}

// between is how long the supervisor waits before it starts the next life.
const between = 300 * time.Millisecond

// run is the supervisor: it returns after close.
func (p *process) run() {
	defer close(p.done)
	for p.start() {
		err := p.cmd.Wait()
		p.mu.Lock()
		served, asked := !p.serving.IsZero(), p.asked
		p.cmd, p.serving, p.asked = nil, time.Time{}, false
		if !served && !asked {
			p.refused++
		}
		p.mu.Unlock()
		if served && !asked {
			p.fault("%s stopped by itself: %v; the end of its log is in %s", p.name, err, p.log.Name())
		}
		time.Sleep(between)
	}
}

// start begins a life, unless it was closed.
func (p *process) start() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	cmd := p.make()
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		p.fault("start %s: %v", p.name, err)
		return false
	}
	p.cmd = cmd
	p.lives++
	go p.watch(cmd)
	return true
}

// watch notes when a life serves.
func (p *process) watch(cmd *exec.Cmd) {
	for {
		time.Sleep(20 * time.Millisecond)
		p.mu.Lock()
		mine := p.cmd == cmd
		p.mu.Unlock()
		if !mine {
			return
		}
		if p.ready() {
			p.mu.Lock()
			if p.cmd == cmd {
				p.serving = time.Now()
			}
			p.mu.Unlock()
			return
		}
	}
}

// end sends a signal to the life that runs, if one does.
func (p *process) end(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.asked = true
		_ = p.cmd.Process.Signal(s) // one that has ended needs none
	}
}

// restart ends a life in order, or by force when that takes too long.
func (p *process) restart(within time.Duration) {
	p.mu.Lock()
	life := p.lives
	p.mu.Unlock()
	p.end(syscall.SIGTERM)
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		p.mu.Lock()
		gone := p.lives != life || p.cmd == nil
		p.mu.Unlock()
		if gone {
			return
		}
	}
	p.fault("%s did not stop within %v of SIGTERM", p.name, within)
	p.end(syscall.SIGKILL)
}

// close ends it for good.
func (p *process) close() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.end(syscall.SIGKILL)
	<-p.done
}

// life is the process that serves just now, and for how long it has; 0: none does.
func (p *process) life() (pid int, age time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.serving.IsZero() {
		return 0, 0
	}
	return p.cmd.Process.Pid, time.Since(p.serving)
}

func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%s: %d lives, %d of them ended before they served", p.name, p.lives, p.refused)
}
