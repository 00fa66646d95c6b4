// Package embedded runs a nats-server inside the process, for people who want a
// dispatcher and no second thing to operate.
//
// It knows nothing of Tollgate's streams, subjects or accounts: it starts a
// server, hands out connections, and stops it. What is stored is the server's.
package embedded

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// readyWithin is how long a start may take. A large store is indexed again after
// a crash, which takes longer than an orderly start.
const readyWithin = 60 * time.Second

// A write that fails can leave a stream locked for good, and with it whoever asks how the
// server is, and its shutdown.
const (
	answerWithin = 10 * time.Second
	stopWithin   = 30 * time.Second
)

// Options set the server. The zero value of every field but StoreDir is safe.
type Options struct {
	StoreDir     string         // required
	Listen       string         // host:port; an empty host is 127.0.0.1, port 0 a free one; "" opens no listener
	User         string         // with Password: who may connect, this process included
	Password     string         //
	Token        string         // instead of User and Password
	SyncInterval time.Duration  // 0: every write is on the disk before it is acknowledged
	MaxStore     int64          // bytes of streams on disk; 0: the server's choice, three quarters of the free space
	Logger       zerolog.Logger // the zero logger is silent
}

// Server is a running server.
type Server struct {
	opts Options
	s    *server.Server
	lock *os.File
	stop sync.Once
}

// Start starts a server on o.StoreDir and returns when it accepts connections.
func Start(o Options) (*Server, error) {
	so, err := o.server()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.StoreDir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded NATS: making the store directory: %w", err)
	}
	lock, err := lockDir(o.StoreDir)
	if err != nil {
		return nil, err
	}
	s, err := run(so, o.Logger)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &Server{opts: o, s: s, lock: lock}, nil
}

func run(so *server.Options, log zerolog.Logger) (*server.Server, error) {
	s, err := server.NewServer(so)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS: %w", err)
	}
	l := &logger{log: log}
	s.SetLoggerV2(l, false, false, false)
	s.Start()
	for until := time.Now().Add(readyWithin); l.fatal() == "" && time.Now().Before(until); {
		if s.ReadyForConnections(100 * time.Millisecond) {
			return s, nil
		}
	}
	s.Shutdown()
	s.WaitForShutdown()
	if why := l.fatal(); why != "" {
		return nil, fmt.Errorf("embedded NATS did not start: %s", why)
	}
	return nil, fmt.Errorf("embedded NATS was not ready after %v (its log says why; a damaged or very large store in %s is the usual cause)", readyWithin, so.StoreDir)
}

// FlushInterval is how soon the disk has what a stream with asynchronous persistence
// has taken, whatever the sync setting.
const FlushInterval = 5 * time.Second

// Durability sets when the disk has what the server acknowledged; 0 is before it did.
// Tests give it to a server of their own, so that theirs keeps what ours does.
func Durability(every time.Duration) func(*server.Options) {
	return func(so *server.Options) {
		so.SyncAlways, so.SyncInterval = every == 0, every
		if so.SyncAlways {
			so.SyncInterval = FlushInterval
		}
	}
}

// server turns the options into the server's own, or says all that is wrong.
func (o Options) server() (*server.Options, error) {
	so := &server.Options{
		ServerName: "tollgate", JetStream: true, StoreDir: o.StoreDir, NoSigs: true,
		Username: o.User, Password: o.Password, Authorization: o.Token,
		JetStreamMaxStore: o.MaxStore,
	}
	Durability(o.SyncInterval)(so)
	var problems []error
	if o.StoreDir == "" {
		problems = append(problems, errors.New("embedded NATS: no store directory: name one that survives a restart"))
	}
	if (o.User == "") != (o.Password == "") {
		problems = append(problems, errors.New("embedded NATS: user and password go together: set both or neither"))
	}
	if o.User != "" && o.Token != "" {
		problems = append(problems, errors.New("embedded NATS: both a token and a user are set: choose one"))
	}
	if o.SyncInterval < 0 || o.MaxStore < 0 {
		problems = append(problems, errors.New("embedded NATS: the sync interval and the store limit must not be negative"))
	}
	if err := o.listen(so); err != nil {
		problems = append(problems, err)
	}
	return so, errors.Join(problems...)
}

func (o Options) listen(so *server.Options) error {
	if o.Listen == "" {
		so.DontListen = true
		return nil
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("embedded NATS: listen address %q: want host:port, such as 127.0.0.1:4222: %w", o.Listen, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("embedded NATS: listen address %q: the port must be a number from 0 to 65535", o.Listen)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if !loopback(host) && o.User == "" && o.Token == "" {
		return fmt.Errorf("embedded NATS: refusing to listen on %s without authentication, because everybody who reaches it could run tools: set a user and password or a token, or listen on 127.0.0.1", o.Listen)
	}
	so.Host, so.Port = host, int(n)
	if n == 0 {
		so.Port = server.RANDOM_PORT
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Conn returns a new connection inside the process: no socket, no listener
// needed. The caller closes it, before [Server.Shutdown].
func (s *Server) Conn(opts ...nats.Option) (*nats.Conn, error) {
	all := []nats.Option{nats.InProcessServer(s.s), nats.MaxReconnects(-1)}
	switch {
	case s.opts.User != "":
		all = append(all, nats.UserInfo(s.opts.User, s.opts.Password))
	case s.opts.Token != "":
		all = append(all, nats.Token(s.opts.Token))
	}
	nc, err := nats.Connect("", append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the embedded NATS: %w", err)
	}
	return nc, nil
}

// ClientURL is where others connect, without credentials; "" without a listener.
func (s *Server) ClientURL() string {
	if s.opts.Listen == "" {
		return ""
	}
	return s.s.ClientURL()
}

// Ill says why the server takes no more writes, or nil. After a write that failed, on
// a full disk above all, it takes none on that stream until it is started again. One that
// does not even say how it is within 10 s hangs on such a write.
func (s *Server) Ill() error {
	return within(answerWithin, func() error {
		if h := s.s.Healthz(&server.HealthzOptions{}); h.StatusCode != http.StatusOK {
			return errors.New(h.Error)
		}
		return nil
	})
}

// errHangs is the answer of a server that has none.
var errHangs = errors.New("the server hangs")

// within returns what do returns, or errHangs when it takes longer.
func within(limit time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return fmt.Errorf("%w: no answer for %s", errHangs, limit)
	}
}

// Shutdown stops the server, waits until its files are closed, and frees the store
// directory. It may be called more than once; every call returns after the stop. A server
// that hangs is left after 30 s, as a crash would leave it: its directory is free when the
// process has ended.
func (s *Server) Shutdown() {
	s.stop.Do(func() {
		err := within(stopWithin, func() error {
			s.s.Shutdown()
			s.s.WaitForShutdown()
			return s.lock.Close() // frees the lock; the file stays, so that nobody locks a deleted one
		})
		if errors.Is(err, errHangs) {
			s.opts.Logger.Error().Err(err).Msg("the embedded server did not stop; it is left as it is")
		}
	})
}

// lockPath is the file whose lock is the right to the store directory.
func lockPath(dir string) string { return filepath.Join(dir, "tollgate.lock") }
