package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// configuration: waits are short, so that calls are between attempts, in a tool and
// on their way out when the program dies.
const configuration = `
nats: { embedded: { listen: %q, store_dir: nats } }
ledger: { path: ledger.db }
limits: { grace: 500ms }
policies:
  agent:
    attempts: 4
    timeout: 2s
    backoff: { base: 50ms, cap: 400ms, throttle_base: 100ms }
    max_retry_after: 5s
    max_deadline: 10m
    run: { attempts: 100, side_effects: 100, elapsed: 1h, max_repairs: 2, max_accounts: 8 }
dependencies:
  d: { breaker: off, quota: { ratio: 1, burst: 10000, refill_per_s: 100 } }
tools:
  demo.flaky: { http: { url: "%[2]s/flaky" }, effect: read, dependency: d, concurrency: 8, policies: [agent] }
  demo.pay: { http: { url: "%[2]s/pay" }, effect: write, retry_safety: idempotency_key, key_retention: 24h, dependency: d, concurrency: 8, policies: [agent] }
  demo.wire: { http: { url: "%[2]s/wire" }, effect: write, retry_safety: never, dependency: d, concurrency: 8, policies: [agent] }
  demo.clock: { exec: { command: [date, -u, +%%FT%%TZ] }, effect: read, dependency: d, concurrency: 8, policies: [agent] }
log: { level: warn, format: json }
`

// program is the real tollgate, which is killed.
type program struct {
	binary, dir, url string
	cmd              *exec.Cmd
	log              *os.File
}

func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tollgate")
	if out, err := exec.Command("go", "build", "-o", binary, "tollgate/cmd/tollgate").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// newProgram chooses a port for good: agents find every new life at the old address.
func newProgram(t *testing.T, tools string) *program {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	dir := t.TempDir()
	err = errors.Join(l.Close(), os.WriteFile(filepath.Join(dir, "tollgate.yaml"), fmt.Appendf(nil, configuration, address, tools), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	p := &program{binary: build(t), dir: dir, url: "nats://" + address}
	if p.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if log, err := os.ReadFile(p.log.Name()); t.Failed() && err == nil {
			t.Logf("the end of the program's log:\n%s", log[max(0, len(log)-8000):])
		}
		p.log.Close()
	})
	return p
}

// start returns when the program serves.
func (p *program) start(ctx context.Context) error {
	ready := filepath.Join(p.dir, "url")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p.cmd = exec.Command(p.binary, "serve", "-c", "tollgate.yaml", "--url-file", ready)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, p.log, p.log
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	return p.served(ctx, ready)
}

// served returns when the program has said where it serves.
func (p *program) served(ctx context.Context, ready string) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the program did not serve within a minute: %w", context.Cause(ctx))
}

// kill is SIGKILL: nothing is flushed, nobody is told.
func (p *program) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed: that is the error
	p.cmd = nil
}
