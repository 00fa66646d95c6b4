package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// posting is a result or an audit entry on its way out.
type posting struct {
	subject string
	body    []byte
	id      string // of the message, where a second copy would be one too many
	call    string // of a result
	outcome string // its ID
	old     bool   // its call may have a newer one by now
	note    dedupe.Publication
}

// poster publishes postings in the order they come, many at once, and tells the
// ledger of each that the server has. One that fails is tried again, unless a newer
// result of the same call has taken its place: a subject keeps only the last. What is
// too much is dropped: the ledger still owes it, and is asked when there is room.
type poster struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	ledger  Owing
	log     zerolog.Logger
	waiting chan posting
	room    chan struct{} // one place for each that is on its way

	mu     sync.Mutex                      // guards what follows
	known  map[dedupe.Publication]struct{} // waiting, on its way or failed
	onWay  map[*nats.Msg]posting
	failed []posting
	behind bool // something was dropped: look into the ledger
}

const (
	postQueue = 8192 // waiting, and as many failed
	postsOut  = 512  // without an answer yet
)

func newPoster(nc *nats.Conn, ledger Owing, log zerolog.Logger) (*poster, error) {
	p := &poster{nc: nc, ledger: ledger, log: log, waiting: make(chan posting, postQueue), room: make(chan struct{}, postsOut),
		known: map[dedupe.Publication]struct{}{}, onWay: map[*nats.Msg]posting{}}
	var err error
	p.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(publishTimeout), jetstream.WithPublishAsyncMaxPending(2*postsOut),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { p.stored(m) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { p.failure(m, err) }))
	return p, err
}

// queue takes a posting, unless it is there already or there is no room.
func (p *poster) queue(it posting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.known[it.note]; there {
		return
	}
	select {
	case p.waiting <- it:
		if it.note != (dedupe.Publication{}) {
			p.known[it.note] = struct{}{}
		}
	default:
		p.behind = true
	}
}

// has reports whether a posting is waiting, on its way or to be tried again.
func (p *poster) has(note dedupe.Publication) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.known[note]
	return there
}

// overran reports, once, that postings were dropped and that there is room for them.
func (p *poster) overran() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.behind && len(p.waiting) == 0 && len(p.failed) < postQueue/2
	p.behind = p.behind && !was
	return was
}

// run publishes until ctx ends and everything is out, or flush ends. At shutdown
// what is left stays owed.
func (p *poster) run(ctx, flush context.Context) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for ctx.Err() == nil {
		select {
		case it := <-p.waiting:
			p.send(flush, it)
		case <-again.C:
			p.repeat(flush)
		case <-ctx.Done():
		}
	}
	for flush.Err() == nil && !p.idle() {
		select {
		case it := <-p.waiting:
			p.send(flush, it)
		case <-again.C:
			p.repeat(flush)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// idle reports whether nothing waits, is on its way or is to be tried again.
func (p *poster) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)+len(p.onWay)+len(p.failed) == 0
}

// send publishes a posting. While the connection is away nothing is: the client would
// keep a copy of every try, and a subscriber get them all.
func (p *poster) send(ctx context.Context, it posting) {
	for !p.nc.IsConnected() && ctx.Err() == nil {
		sleep(ctx, 20*time.Millisecond)
	}
	if it.old && p.superseded(it) {
		p.done(it)
		return
	}
	select {
	case p.room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	m := &nats.Msg{Subject: it.subject, Data: it.body, Header: nats.Header{}}
	if it.id != "" {
		m.Header.Set(schemas.HeaderMessageID, it.id)
	}
	p.mu.Lock()
	p.onWay[m] = it
	p.mu.Unlock()
	if _, err := p.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0)); err != nil { // tried again here, where what is newer is known
		p.failure(m, err)
	}
}

// take removes what is on its way. It was removed before when an answer came after
// its failure had been reported.
func (p *poster) take(m *nats.Msg) (posting, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it, ok := p.onWay[m]
	if ok {
		delete(p.onWay, m)
		<-p.room
	}
	return it, ok
}

func (p *poster) stored(m *nats.Msg) {
	if it, ok := p.take(m); ok {
		p.done(it)
	}
}

// done notes that a posting need not go out any more.
func (p *poster) done(it posting) {
	p.ledger.Published(it.note)
	p.forget(it)
}

func (p *poster) forget(it posting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, it.note)
}

func (p *poster) failure(m *nats.Msg, err error) {
	it, ok := p.take(m)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failed) == 0 { // one line for each round
		p.log.Warn().Err(err).Str("subject", it.subject).Msg("not published yet; it is tried again every second")
	}
	if len(p.failed) >= postQueue {
		p.behind = true
		delete(p.known, it.note)
		return
	}
	it.old = true
	p.failed = append(p.failed, it)
}

// repeat publishes what failed before.
func (p *poster) repeat(ctx context.Context) {
	if !p.nc.IsConnected() {
		return
	}
	p.mu.Lock()
	failed := p.failed
	p.failed = nil
	p.mu.Unlock()
	for _, it := range failed {
		p.send(ctx, it)
	}
}

// superseded reports whether the call has a newer result. A repeated answer has no
// number, and is told by its outcome.
func (p *poster) superseded(it posting) bool {
	if it.call == "" {
		return false
	}
	r, err := p.ledger.Record(it.call)
	switch {
	case err != nil:
		return false
	case it.note.Result != 0:
		return r.Result != it.note.Result
	}
	return r.Outcome == nil || r.Outcome.ID != it.outcome
}
