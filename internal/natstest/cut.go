package natstest

import (
	"bytes"
	"net"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Cut says when a connection breaks.
type Cut uint8

// The cuts.
const (
	BeforeWrite Cut = iota + 1 // the server never gets the bytes
	AfterWrite                 // the server gets and handles them; its reply is lost
)

// CutOn breaks the connection at the N-th client write that Match accepts, once.
// Loop N from 1 until a run ends with Fired false: every write has then been a
// fault. nats.go gathers what is published quickly into one write, so N counts
// writes, not messages.
type CutOn struct {
	Provider nats.InProcessConnProvider
	Match    func(write []byte) bool // nil: every write
	N        int
	Kind     Cut

	seen atomic.Int64
}

// Fired reports whether the fault has happened.
func (c *CutOn) Fired() bool { return c.seen.Load() >= int64(c.N) }

// Seen is how many writes matched so far.
func (c *CutOn) Seen() int { return int(c.seen.Load()) }

// InProcessConn implements [nats.InProcessConnProvider].
func (c *CutOn) InProcessConn() (net.Conn, error) {
	conn, err := c.Provider.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, on: c}, nil
}

// Publishes matches writes that publish to a subject with the given prefix; acks
// are publishes to "$JS.ACK.".
func Publishes(prefix string) func([]byte) bool {
	want := []byte("PUB " + prefix) // also the end of HPUB
	return func(b []byte) bool { return bytes.Contains(b, want) }
}

type cutConn struct {
	net.Conn
	on   *CutOn
	lost atomic.Bool // replies from here on never reach the client
}

func (c *cutConn) Write(b []byte) (int, error) {
	hit := (c.on.Match == nil || c.on.Match(b)) && c.on.seen.Add(1) == int64(c.on.N)
	if !hit {
		return c.Conn.Write(b)
	}
	// Set before the write: the server may answer before Write returns.
	c.lost.Store(true)
	if c.on.Kind == AfterWrite {
		c.Conn.Write(b) // the pipe has no buffer: the server has read all of it
	}
	c.Conn.Close()
	return 0, net.ErrClosed
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.lost.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}
