package model

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// fuse carries the connection of one dispatcher process. Once armed it breaks at the
// n-th write and lets nothing through any more: to the outside the process is dead.
type fuse struct {
	provider nats.InProcessConnProvider
	left     atomic.Int64 // writes until it breaks; 0: not armed
	late     atomic.Bool  // the server still gets that write
	broken   atomic.Bool
	away     atomic.Bool // the server cannot be reached for now
	last     atomic.Pointer[fused]
}

// arm makes the n-th write from now the last.
func (f *fuse) arm(n int, late bool) {
	f.late.Store(late)
	f.left.Store(int64(n))
}

// InProcessConn implements [nats.InProcessConnProvider].
func (f *fuse) InProcessConn() (net.Conn, error) {
	if f.broken.Load() || f.away.Load() {
		return nil, errors.New("there is no way to the server")
	}
	c, err := f.provider.InProcessConn()
	if err != nil {
		return nil, err
	}
	w := &fused{Conn: c, fuse: f}
	f.last.Store(w)
	return w, nil
}

// lose breaks the connection, and lets nobody connect until it is found again.
func (f *fuse) lose() {
	f.away.Store(true)
	if c := f.last.Load(); c != nil {
		_ = c.Close()
	}
}

func (f *fuse) find() { f.away.Store(false) }

type fused struct {
	net.Conn
	fuse *fuse
}

func (c *fused) Write(b []byte) (int, error) {
	if c.fuse.left.Load() == 0 || c.fuse.left.Add(-1) != 0 {
		return c.Conn.Write(b)
	}
	c.fuse.broken.Store(true) // before the write: the server may answer before it returns
	if c.fuse.late.Load() {
		_, _ = c.Conn.Write(b)
	}
	_ = c.Conn.Close()
	return 0, net.ErrClosed
}

func (c *fused) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.fuse.broken.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}
