// Package natstest lets a test use a real nats-server in virtual time, restart it
// on its files, and break a client's connection at a counted write.
//
// It holds no fake of NATS and draws no random number: a fault happens at the
// n-th match or not at all, so that every run of a test is the same run.
package natstest

import (
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bubble runs f in a synctest bubble. Such a test must not call t.Parallel:
// nats.go keeps timers in a package-level pool, and a timer that belongs to one
// bubble must not be found by the next. Two collections empty the pool.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	emptyPools()
	defer emptyPools() // for a test in real time that comes next
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(letPollersEnd) // registered first, so it runs last
		f(t)
	})
}

// letPollersEnd gives what polls a closed connection its last look. Time stands still
// once a bubble's first goroutine has returned, and nats.go's drain of a subscription
// asks only every 100 ms whether its connection is still there.
func letPollersEnd() { time.Sleep(time.Second) }

func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// Option changes the server's options before it starts.
type Option func(*server.Options)

// Node is a nats-server that can be restarted on the same directory. It is a
// [nats.InProcessConnProvider]: clients made before a restart reconnect to the
// new server by themselves. A node belongs to one goroutine, its clients do not.
type Node struct {
	dir  string
	opts []Option
	up   atomic.Pointer[server.Server] // nil while stopped; clients read it when they reconnect
}

// Server starts a JetStream server without a listener on dir. It is stopped at
// the end of the test.
func Server(t testing.TB, dir string, opts ...Option) *Node {
	t.Helper()
	n := &Node{dir: dir, opts: opts}
	n.Start(t)
	t.Cleanup(n.Stop)
	return n
}

// Start starts the server again after [Node.Stop].
func (n *Node) Start(t testing.TB) {
	t.Helper()
	o := &server.Options{
		ServerName: "natstest", DontListen: true, JetStream: true, StoreDir: n.dir, NoLog: true, NoSigs: true,
	}
	for _, opt := range n.opts {
		opt(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatalf("natstest: making a server on %s: %v", n.dir, err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		t.Fatalf("natstest: the server on %s did not become ready", n.dir)
	}
	n.up.Store(s)
}

// StartOn is [Node.Start] on another directory: on a copy of the old one as it was at
// some instant, the server starts as after a crash at that instant.
func (n *Node) StartOn(t testing.TB, dir string) {
	t.Helper()
	n.dir = dir
	n.Start(t)
}

// Dir is where the server keeps its streams.
func (n *Node) Dir() string { return n.dir }

// Stop shuts the server down and waits for it. Connections break and find
// nothing until [Node.Start].
func (n *Node) Stop() {
	if s := n.up.Swap(nil); s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// Restart is Stop, an outage of the given length, and Start.
func (n *Node) Restart(t testing.TB, outage time.Duration) {
	t.Helper()
	n.Stop()
	time.Sleep(outage)
	n.Start(t)
}

// Server returns the running server, nil while it is stopped.
func (n *Node) Server() *server.Server { return n.up.Load() }

// InProcessConn implements [nats.InProcessConnProvider].
func (n *Node) InProcessConn() (net.Conn, error) {
	s := n.up.Load()
	if s == nil {
		return nil, errors.New("natstest: the server is stopped")
	}
	return s.InProcessConn()
}

// Connect connects to p, a [*Node] or a fault around one, and reconnects for ever.
// The connection is closed at the end of the test.
func Connect(t testing.TB, p nats.InProcessConnProvider, opts ...nats.Option) *nats.Conn {
	t.Helper()
	all := append([]nats.Option{
		nats.InProcessServer(p), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the default one prints
	}, opts...)
	nc, err := nats.Connect("", all...)
	if err != nil {
		t.Fatalf("natstest: connecting: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// JetStream is [Connect] and the JetStream context of that connection.
func JetStream(t testing.TB, p nats.InProcessConnProvider, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(Connect(t, p, opts...))
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	return js
}
