package badinput

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// served is a configuration of the real program. The retention of keys is left at
// its default; the waits are short.
const served = `
nats: { embedded: { listen: %q, store_dir: %q, max_store: 8GiB } }
ledger: { path: %q }
policies:
  agent:
    attempts: 4
    timeout: 2s
    backoff: { base: 50ms, cap: 400ms, throttle_base: 100ms }
    max_retry_after: 5s
    max_deadline: 10m
    run: { attempts: 1000, side_effects: 1000, elapsed: 1h, max_repairs: 2, max_accounts: 8 }
dependencies:
  d: { breaker: off, quota: { ratio: 1, burst: 10000, refill_per_s: 100 } }
tools:
  work.read: { http: { url: "%[4]s/read" }, effect: read, dependency: d, concurrency: 8, policies: [agent] }
  work.once: { http: { url: "%[4]s/once" }, effect: write, retry_safety: never, dependency: d, concurrency: 8, policies: [agent] }
limits: { shutdown_grace: 3s }
log: { level: warn, format: json }
`

// built names the program, for the tests and for what they start in namespaces.
const built = "TOLLGATE_TEST_BINARY"

// TestMain builds the program once.
func TestMain(m *testing.M) {
	if os.Getenv(built) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "tollgate-badinput")
	path := filepath.Join(dir, "tollgate")
	if err == nil {
		var out []byte
		if out, err = exec.Command("go", "build", "-o", path, "tollgate/cmd/tollgate").CombinedOutput(); err != nil {
			err = fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	if err = errors.Join(err, os.Setenv(built, path)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // what is left of it is the system's to clear
	os.Exit(code)
}

// program is the real tollgate, with the ledger and the store where a test wants them.
type program struct {
	t        *testing.T
	binary   string
	dir, url string
	cmd      *exec.Cmd
	log      *os.File
	ended    chan error
}

// newProgram chooses a port for good: clients find every new life at the old address.
func newProgram(t *testing.T, ledger, store, tools string) *program {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	p := &program{t: t, dir: t.TempDir(), url: "nats://" + address}
	p.binary = os.Getenv(built)
	if err = errors.Join(l.Close(), os.WriteFile(filepath.Join(p.dir, "tollgate.yaml"), fmt.Appendf(nil, served, address, store, ledger, tools), 0o600)); err != nil {
		t.Fatal(err)
	}
	if p.log, err = os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			log := p.said()
			t.Logf("the end of the program's log:\n%s", log[max(0, len(log)-200000):])
		}
		p.log.Close()
	})
	return p
}

// launch starts the program and does not wait.
func (p *program) launch() {
	p.t.Helper()
	if err := os.Remove(p.ready()); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(p.binary, "serve", "-c", "tollgate.yaml", "--url-file", p.ready())
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, p.log, p.log
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd, ended := p.cmd, make(chan error, 1)
	p.ended = ended
	go func() { ended <- cmd.Wait() }()
}

// start returns when the program serves.
func (p *program) start() {
	p.t.Helper()
	p.launch()
	p.await(time.Minute, "the program serves", func() bool {
		if len(p.ended) > 0 {
			p.t.Fatalf("the program ended instead of serving: %s", p.said())
		}
		_, err := os.Stat(p.ready())
		return err == nil
	})
}

func (p *program) ready() string { return filepath.Join(p.dir, "url") }

// said is everything the program has written.
func (p *program) said() []byte {
	log, err := os.ReadFile(p.log.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return log
}

// kill is SIGKILL: nothing is flushed, nobody is told.
func (p *program) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may be dead already
	<-p.ended
	p.cmd = nil
}

// stop is SIGTERM, and the ownership is released.
func (p *program) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if exit := p.end(time.Minute); exit != 0 {
		p.t.Fatalf("stopped with exit code %d: %s", exit, p.said())
	}
}

// end waits until the program ends by itself and returns its exit code.
func (p *program) end(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // where it hangs is the end of what it says
		time.Sleep(time.Second)
		p.t.Fatalf("the program still runs after %s", within)
	}
	code := p.cmd.ProcessState.ExitCode()
	p.cmd = nil
	return code
}

func (p *program) await(within time.Duration, what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// tollgate runs one command against the program and returns what it said.
func (p *program) tollgate(args ...string) (out string, exit int) {
	p.t.Helper()
	cmd := exec.Command(p.binary, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "TOLLGATE_NATS_URL=" + p.url}
	b, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		p.t.Fatal(err)
	}
	return string(bytes.TrimSpace(b)), cmd.ProcessState.ExitCode()
}

// refuses starts the program, which must end by itself and say all of the parts.
func (p *program) refuses(parts ...string) {
	p.t.Helper()
	if err := p.log.Truncate(0); err != nil {
		p.t.Fatal(err)
	}
	where, exit := p.verdict(time.Minute)
	if exit != 1 {
		p.t.Errorf("it must not start: %s", where)
	}
	for _, part := range parts {
		if !bytes.Contains(p.said(), []byte(part)) {
			p.t.Errorf("%q is not in: %s", part, p.said())
		}
	}
}
