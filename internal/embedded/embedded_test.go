package embedded_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/internal/embedded"
)

func start(t *testing.T, o embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func publish(t *testing.T, s *embedded.Server) uint64 {
	t.Helper()
	nc, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	ack, err := js.Publish(t.Context(), "s", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

// What was acknowledged is there after a stop and a start, and a stopped server
// frees its directory; stopping twice, and at the same time, is harmless.
func TestStoreSurvivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "store")
	for want := uint64(1); want <= 3; want++ {
		s := start(t, embedded.Options{StoreDir: dir})
		if got := publish(t, s); got != want {
			t.Fatalf("sequence %d, want %d", got, want)
		}
		if s.ClientURL() != "" {
			t.Errorf("no listener, but a client URL %q", s.ClientURL())
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(s.Shutdown)
		}
		wg.Wait()
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("store directory has mode %v, want 0700: it holds arguments", info.Mode().Perm())
	}
}

// The server would let two processes write the same streams; the lock must not.
func TestSecondServerOnTheDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, embedded.Options{StoreDir: dir})
	_, err := embedded.Start(embedded.Options{StoreDir: dir})
	if err == nil {
		t.Fatal("a second server started on the same directory")
	}
	for _, want := range []string{dir, "process " + strconv.Itoa(os.Getpid()), "stop"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// The lock is the kernel's: a process that was killed does not keep it.
func TestLockDiesWithItsProcess(t *testing.T) {
	if dir := os.Getenv("EMBEDDED_TEST_HOLD"); dir != "" {
		start(t, embedded.Options{StoreDir: dir})
		os.Stdout.WriteString("held\n")
		select {}
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLockDiesWithItsProcess$")
	cmd.Env = append(os.Environ(), "EMBEDDED_TEST_HOLD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	if _, err := embedded.Start(embedded.Options{StoreDir: dir}); err == nil || !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Fatalf("error %v does not name the process that holds the directory", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	start(t, embedded.Options{StoreDir: dir})
}

func TestListen(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    embedded.Options
		want string // in the error; "" starts
	}{
		{"loopback", embedded.Options{Listen: "127.0.0.1:0"}, ""},
		{"no host is loopback", embedded.Options{Listen: ":0"}, ""},
		{"IPv6 loopback", embedded.Options{Listen: "[::1]:0"}, ""},
		{"everywhere with a user", embedded.Options{Listen: "0.0.0.0:0", User: "u", Password: "p"}, ""},
		{"everywhere with a token", embedded.Options{Listen: "0.0.0.0:0", Token: "t"}, ""},
		{"everywhere for everybody", embedded.Options{Listen: "0.0.0.0:0"}, "without authentication"},
		{"a name for everybody", embedded.Options{Listen: "db.example:4222"}, "without authentication"},
		{"no port", embedded.Options{Listen: "127.0.0.1"}, "host:port"},
		{"bad port", embedded.Options{Listen: "127.0.0.1:nats"}, "port must be a number"},
		{"user alone", embedded.Options{User: "u"}, "set both"},
		{"user and token", embedded.Options{User: "u", Password: "p", Token: "t"}, "choose one"},
		{"negative", embedded.Options{SyncInterval: -1}, "negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.StoreDir = t.TempDir()
			s, err := embedded.Start(tc.o)
			if tc.want != "" {
				if err == nil {
					s.Shutdown()
				}
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error %v does not say %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Shutdown()
			publish(t, s) // the process itself gets in, whatever the credentials
			nc, err := nats.Connect(s.ClientURL(), nats.NoReconnect(), nats.Timeout(2*time.Second))
			if open := tc.o.User == "" && tc.o.Token == ""; open != (err == nil) {
				t.Errorf("connecting without credentials: %v", err)
			}
			if err == nil {
				nc.Close()
			}
		})
	}
}

func TestStoreDirIsRequired(t *testing.T) {
	if _, err := embedded.Start(embedded.Options{}); err == nil || !strings.Contains(err.Error(), "store directory") {
		t.Errorf("error %v does not ask for a store directory", err)
	}
}

// A port in use is an error of Start with the server's own words, and frees the
// directory; the log is zerolog's.
func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	dir := t.TempDir()
	_, err = embedded.Start(embedded.Options{StoreDir: dir, Listen: l.Addr().String(), Logger: zerolog.New(zerolog.SyncWriter(&log))})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("error %v does not say that the port is in use", err)
	}
	if !strings.Contains(log.String(), `"level":"error"`) || !strings.Contains(log.String(), `"level":"info"`) {
		t.Errorf("the server's log did not reach zerolog:\n%s", log.String())
	}
	l.Close()
	start(t, embedded.Options{StoreDir: dir})
}
