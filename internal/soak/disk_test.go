//go:build soak

package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tollgate/internal/demo"
)

// supervisor is a shell that gives the embedded server a small disk of its own and
// starts the program again whenever it ends.
const supervisor = `mount -t tmpfs -o size=48m soak nats && while :; do "$@"; sleep 0.2; done`

// A full disk of the embedded server, under load: once there is room, everything
// goes on with nobody's help but the supervisor's, and nothing has been lost.
func TestSoakAFullDiskOfTheEmbeddedServer(t *testing.T) {
	const calls = 300
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, context.DeadlineExceeded)
	defer cancel()
	world, err := demo.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(t, world.URL())
	// What the streams may hold in all is more than the small disk has: it is the disk
	// that gets full.
	file := filepath.Join(p.dir, "tollgate.yaml")
	text, err := os.ReadFile(file)
	text = bytes.Replace(text, []byte("store_dir: nats"), []byte("store_dir: nats, max_store: 32GiB"), 1)
	if err := errors.Join(err, os.WriteFile(file, text, 0o600), os.Mkdir(filepath.Join(p.dir, "nats"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := p.supervise(ctx, t); err != nil {
		t.Fatal(err)
	}
	a, err := newAgents(p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.nc.Close()
	done := make(chan error, 1)
	go func() { done <- a.work(ctx, calls, 12) }()
	if !reached(ctx, world, calls/3, done) {
		t.Fatal("the work ended before the disk was full")
	}
	if err := p.fill(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	check(t, a, world, calls)
}

// supervise starts the program under its supervisor and returns when it serves. (It
// needs unshare and user namespaces.)
func (p *program) supervise(ctx context.Context, t *testing.T) error {
	ready := filepath.Join(p.dir, "url")
	shell := exec.Command("unshare", "-Urm", "sh", "-c", supervisor, "sh", p.binary, "serve", "-c", "tollgate.yaml", "--url-file", ready)
	shell.Dir, shell.Stdout, shell.Stderr = p.dir, p.log, p.log
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		return err
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		_ = shell.Wait() // it was killed: that is the error
	})
	p.cmd = shell
	return p.served(ctx, ready)
}

// fill keeps the embedded server's disk full for so long.
func (p *program) fill(length time.Duration) error {
	path := fmt.Sprintf("/proc/%d/root%s/nats/ballast", p.cmd.Process.Pid, p.dir)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for n := 1 << 20; n >= 512; {
			if _, err = f.Write(make([]byte, n)); err != nil {
				n /= 2
			}
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(path))
}
