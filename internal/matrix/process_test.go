package matrix

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/tools/function"
)

// process is one life of the dispatcher: everything through which it acts on the
// world. When it dies nothing of it gets through any more, and what the next one
// finds is copied at that instant.
type process struct {
	f      *fault
	node   *natstest.Node
	dir    string // of the world
	ledger string

	mu    sync.Mutex // guards what follows; held by a commit, so that no half of one is copied
	dead  bool
	away  bool   // nothing connects
	left  string // the copies
	conns []net.Conn
}

// commit stands around every commit of the ledger.
func (p *process) commit(do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	switch p.f.at(commit) {
	case refused:
		return errRefused
	case lost:
		return errors.Join(errLost, do())
	case diesBefore:
		p.die()
		return errDead
	case diesAfter:
		err := do()
		p.die()
		return errors.Join(errDead, err)
	case serverGone:
		p.f.todo <- restart
	}
	return do()
}

// kill is kill -9.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		p.die()
	}
}

// die needs the lock.
func (p *process) die() {
	p.dead = true
	for _, c := range p.conns {
		c.Close()
	}
	if err := p.copies(); err != nil {
		panic("matrix: copying what is left of a process: " + err.Error())
	}
}

// copies keeps the ledger and, with an embedded server, its store as they are.
func (p *process) copies() error {
	var err error
	if p.left, err = os.MkdirTemp(p.dir, "left"); err != nil {
		return err
	}
	if err := copyFile(p.ledger, filepath.Join(p.left, "ledger.db")); err != nil {
		return err
	}
	if p.f.setup != embedded {
		return nil
	}
	store := p.node.Dir()
	return filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server removed it meanwhile
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(store, path)
		if err != nil {
			return err
		}
		to := filepath.Join(p.left, "nats", rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		if err := copyFile(path, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// call stands around every call of a tool's function.
func (p *process) call(do function.Func) function.Func {
	return func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		k := p.f.at(tool)
		if k == diesBefore {
			p.kill()
		}
		if p.isDead() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if k == serverGone {
			p.f.todo <- restart
			time.Sleep(50 * time.Millisecond)
		}
		value, err := do(ctx, in)
		switch k {
		case refused:
			return nil, worldtest.Busy(time.Second)
		case diesAfter:
			p.kill()
			fallthrough
		case lost:
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return value, err
	}
}

// part breaks the connections, and lets new ones come about only once it is over. A
// server that stops while it delivers spins until its client is gone, and in virtual
// time that is for ever: the connections go first.
func (p *process) part(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away = on; !on {
		return
	}
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// InProcessConn connects the process to the server.
func (p *process) InProcessConn() (net.Conn, error) {
	conn, err := p.node.InProcessConn()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.away {
		conn.Close()
		return nil, errDead
	}
	w := &wire{Conn: conn, p: p}
	p.conns = append(p.conns, w)
	return w, nil
}

// wire is a connection on which counted writes and deliveries go wrong.
type wire struct {
	net.Conn
	p *process

	mu  sync.Mutex // guards cut; a read that begins before the cut ends after it
	cut bool
}

func (w *wire) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// Close also loses what was read and not handed on yet.
func (w *wire) Close() error {
	w.lose()
	return w.Conn.Close()
}

func (w *wire) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
}

// Write counts publishes and acknowledgements, and the schedules of those firings
// that the server is kept from.
func (w *wire) Write(b []byte) (int, error) {
	f := w.p.f
	if w.isCut() {
		return 0, net.ErrClosed
	}
	if f.op == firing {
		return w.arm(b)
	}
	if !writes(f.op, b) {
		return w.Conn.Write(b)
	}
	k := f.at(f.op)
	if k == lost || k == diesAfter {
		w.lose()        // before the write: the server may answer before Write returns
		w.Conn.Write(b) // the pipe has no buffer: the server has read all of it
	}
	switch k {
	case refused, lost:
		w.Close()
		return 0, net.ErrClosed
	case diesBefore, diesAfter:
		w.p.kill()
		return 0, net.ErrClosed
	case serverGone:
		f.todo <- restart
	}
	return w.Conn.Write(b)
}

var due = regexp.MustCompile(`Nats-Schedule: ?@at ([^\r\n]+)`)

// arm makes a schedule that will not fire, or whose server is gone when it is due.
func (w *wire) arm(b []byte) (int, error) {
	f := w.p.f
	if f.kind != refused && f.kind != serverGone || !writes(firing, b) {
		return w.Conn.Write(b)
	}
	k := f.at(firing)
	n, err := w.Conn.Write(b)
	if k == refused {
		f.todo <- unschedule
	}
	if k == serverGone {
		at, err := time.Parse(time.RFC3339Nano, string(due.FindSubmatch(b)[1]))
		if err != nil {
			panic("matrix: a schedule says not when it is due: " + err.Error())
		}
		time.AfterFunc(time.Until(at), func() { f.todo <- restart })
	}
	return n, err
}

// Read counts the retries that arrive.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	f := w.p.f
	if f.op == firing && (f.kind == lost || f.kind == diesBefore) && !w.isCut() && fires(b[:n]) {
		switch f.at(firing) {
		case lost:
			w.Close()
		case diesBefore:
			w.p.kill()
		}
	}
	if w.isCut() {
		return 0, net.ErrClosed
	}
	return n, err
}
