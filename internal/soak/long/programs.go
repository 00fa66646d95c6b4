package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// serverConfig: every write is on the disk before it is acknowledged. The limits of
// the streams are larger than the disk, which is what gets full.
const serverConfig = `
listen: %q
http: %q
jetstream { store_dir: %q, sync_interval: always, max_file_store: 32GB, max_memory_store: 64MB }
`

// dispatcherConfig: waits are short, so that calls are between attempts, in a tool
// and on their way out when a process dies.
const dispatcherConfig = `
nats: { url: %q }
ledger: { path: %q, retention: %s }
limits: { grace: 500ms, shutdown_grace: 5s }
policies:
  agent:
    attempts: 5
    timeout: 2s
    backoff: { base: 50ms, cap: 2s, throttle_base: 200ms }
    max_retry_after: 5s
    max_deadline: %s
    run: { attempts: 100, side_effects: 100, elapsed: %s, max_repairs: 2, max_accounts: 8 }
dependencies:
  d: { breaker: off, quota: { ratio: 1, burst: 10000, refill_per_s: 100 } }
tools:
  demo.flaky: { http: { url: "%[6]s/flaky" }, effect: read, dependency: d, concurrency: 32, policies: [agent] }
  demo.pay: { http: { url: "%[6]s/pay" }, effect: write, retry_safety: idempotency_key, key_retention: 24h, dependency: d, concurrency: 32, policies: [agent] }
  demo.wire: { http: { url: "%[6]s/wire" }, effect: write, retry_safety: never, dependency: d, concurrency: 32, policies: [agent] }
  demo.clock: { exec: { command: [date, -u, +%%FT%%TZ] }, effect: read, dependency: d, concurrency: 8, policies: [agent] }
  soak.echo: { nats: { subject: soak.echo }, effect: read, dependency: d, concurrency: 32, policies: [agent] }
log: { level: warn, format: json }
`

// programs are the two processes and where they are found.
type programs struct {
	server, dispatcher         *process
	url, health                string
	serverDisk, ledgerDisk     *disk
	serverStore, ledger, ready string
}

// The sizes of the disks: several times what the load needs.
const serverDiskBytes, ledgerDiskBytes = 1 << 30, 512 << 20

func newPrograms(o options, tools string, fault func(string, ...any)) (p *programs, err error) {
	p = &programs{}
	addresses, err := free(2)
	if err != nil {
		return nil, err
	}
	p.url, p.health = "nats://"+addresses[0], "http://"+addresses[1]+"/healthz"
	if p.serverDisk, err = mount(filepath.Join(o.inside, "server"), serverDiskBytes); err != nil {
		return nil, err
	}
	if p.ledgerDisk, err = mount(filepath.Join(o.inside, "ledger"), ledgerDiskBytes); err != nil {
		return nil, err
	}
	p.serverStore, p.ledger = p.serverDisk.dir, filepath.Join(p.ledgerDisk.dir, "ledger.db")
	p.ready = filepath.Join(o.inside, "ready")
	serverFile, dispatcherFile := filepath.Join(o.inside, "nats.conf"), filepath.Join(o.inside, "tollgate.yaml")
	err = errors.Join(
		os.WriteFile(serverFile, fmt.Appendf(nil, serverConfig, addresses[0], addresses[1], p.serverStore), 0o600),
		os.WriteFile(dispatcherFile, fmt.Appendf(nil, dispatcherConfig, p.url, p.ledger, o.retention, o.window(), o.runs(), tools), 0o600))
	if err != nil {
		return nil, err
	}
	p.server, err = newProcess("nats-server", o.out, fault, p.healthy, func() *exec.Cmd {
		return exec.Command(filepath.Join(o.inside, "nats-server"), "-c", serverFile)
	})
	if err != nil {
		return nil, err
	}
	p.dispatcher, err = newProcess("tollgate", o.out, fault, func() bool { return exists(p.ready) }, func() *exec.Cmd {
		_ = os.Remove(p.ready) // of the life before
		cmd := exec.Command(filepath.Join(o.inside, "tollgate"), "serve", "-c", dispatcherFile, "--url-file", p.ready)
		cmd.Dir, cmd.Env = o.inside, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.inside}
		return cmd
	})
	return p, err
}

func newProcess(name, out string, fault func(string, ...any), ready func() bool, command func() *exec.Cmd) (*process, error) {
	log, err := os.Create(filepath.Join(out, name+".log"))
	if err != nil {
		return nil, err
	}
	return &process{name: name, make: command, ready: ready, log: log, fault: fault, done: make(chan struct{})}, nil
}

// window is how long a call may last.
func (o options) window() time.Duration { return o.retention - 20*time.Second }

// runs is how long a run may last, and so the least for which its accounts are kept.
func (o options) runs() time.Duration { return 2 * o.retention }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (p *programs) healthy() bool { return p.illness() == nil }

// illness is what the server says of its own health.
func (p *programs) illness() error {
	c := http.Client{Timeout: time.Second}
	r, err := c.Get(p.health)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text := make([]byte, 500)
	n, _ := r.Body.Read(text) // the status says enough
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.Status, text[:n])
	}
	return nil
}

// free finds ports that nobody uses.
func free(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
