package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// server is a private database, on an empty directory and a port of this machine.
type server struct {
	addr    string
	version string
	cmd     *exec.Cmd
	exited  chan error
	end     syscall.Signal
}

const startWithin = 30 * time.Second

// startRedis keeps an append-only file, synced every second, the default for such a file;
// nothing else differs from what Redis does without a configuration.
func startRedis(ctx context.Context, dir string) (*server, error) {
	program, err := find("redis-server", "redis-server", "/usr/bin")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	s, err := start(program, dir, syscall.SIGTERM, nil, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
	if err != nil {
		return nil, err
	}
	s.addr = net.JoinHostPort("127.0.0.1", port)
	rdb := redis.NewClient(&redis.Options{Addr: s.addr})
	defer rdb.Close()
	err = s.answers(ctx, func(ctx context.Context) error {
		info, err := rdb.InfoMap(ctx, "server").Result()
		s.version = info["Server"]["redis_version"]
		return err
	})
	return s, err
}

// startPostgres changes no setting but where it listens: its defaults are durable.
func startPostgres(ctx context.Context, dir string) (*server, error) {
	program, err := find("postgres", "postgresql", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	as, err := notRoot(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(filepath.Dir(program), "initdb"), "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale", "C.UTF-8")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	s, err := start(program, dir, syscall.SIGINT, as, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+dir)
	if err != nil {
		return nil, err
	}
	s.addr = fmt.Sprintf("postgres://bench@127.0.0.1:%s/postgres?sslmode=disable", port)
	err = s.answers(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.addr)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		return conn.QueryRow(ctx, "SHOW server_version").Scan(&s.version)
	})
	return s, err
}

// find looks beside PATH where Debian keeps the program; the newest version wins.
func find(program, debianPackage, where string) (string, error) {
	found, err := filepath.Glob(filepath.Join(where, program))
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[len(found)-1], nil
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is not installed: apt-get install %s: %w", program, debianPackage, err)
	}
	return filepath.EvalSymlinks(path) // initdb is beside the real one
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// notRoot gives the directory to Debian's user of PostgreSQL, which refuses to run as
// root. It is nil when this process is not root either.
func notRoot(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user for it: apt-get install postgresql, or run this as somebody else: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}

func start(program, dir string, end syscall.Signal, as *syscall.Credential, args ...string) (*server, error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(program, args...)
	// A group of its own: an interrupt from the terminal reaches this program only,
	// which stops its servers itself.
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, log, log, &syscall.SysProcAttr{Credential: as, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	s := &server{cmd: cmd, exited: make(chan error, 1), end: end}
	go func() { s.exited <- cmd.Wait() }() // stop receives it
	return s, nil
}

// answers waits for the server's first answer; a server that gives none is stopped.
func (s *server) answers(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	var last error
	err := until(ctx, 50*time.Millisecond, func() (bool, error) {
		last = ask(ctx)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(filepath.Join(s.cmd.Dir, "log")) // best effort: it explains, and decides nothing
	return errors.Join(fmt.Errorf("%s does not answer: %w: %w\n%s", s.cmd.Path, err, last, strings.TrimSpace(string(log))), s.stop())
}

func (s *server) stop() error {
	if err := s.cmd.Process.Signal(s.end); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-s.exited:
		return err
	case <-time.After(startWithin):
		return errors.Join(fmt.Errorf("%s was asked to end and did not within %v", s.cmd.Path, startWithin), s.cmd.Process.Kill())
	}
}
