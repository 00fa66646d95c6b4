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
	note    dedupe.Publication
}

// poster publishes postings in the order they come, many at once, and tells the
// ledger of each that the server has. One that fails is tried again, unless a newer
// result of the same call has taken its place: a subject keeps only the last.
type poster struct {
	js      jetstream.JetStream
	ledger  Owing
	log     zerolog.Logger
	waiting chan posting
	room    chan struct{} // one place for each that is on its way

	mu     sync.Mutex // guards what follows
	onWay  map[*nats.Msg]posting
	failed []posting
	behind bool // the queue was full: look into the ledger
}

const (
	postQueue = 8192
	postsOut  = 512 // without an answer yet
)

func newPoster(nc *nats.Conn, ledger Owing, log zerolog.Logger) (*poster, error) {
	p := &poster{ledger: ledger, log: log, waiting: make(chan posting, postQueue), room: make(chan struct{}, postsOut), onWay: map[*nats.Msg]posting{}}
	var err error
	p.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(publishTimeout), jetstream.WithPublishAsyncMaxPending(2*postsOut),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { p.stored(m) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { p.failure(m, err) }))
	return p, err
}

func (p *poster) queue(it posting) {
	select {
	case p.waiting <- it:
	default:
		p.mu.Lock()
		p.behind = true
		p.mu.Unlock()
	}
}

// overran reports, once, that postings were dropped and that all others are out.
func (p *poster) overran() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.behind && len(p.waiting) == 0 && len(p.failed) == 0
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
	for flush.Err() == nil {
		select {
		case it := <-p.waiting:
			p.send(flush, it)
			continue
		default:
		}
		if p.idle() {
			return
		}
		sleep(flush, 10*time.Millisecond)
		p.repeat(flush)
	}
}

// idle reports whether nothing is on its way or waits for another try.
func (p *poster) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.onWay)+len(p.failed) == 0
}

func (p *poster) send(ctx context.Context, it posting) {
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
	if _, err := p.js.PublishMsgAsync(m); err != nil {
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
		p.ledger.Published(it.note)
	}
}

func (p *poster) failure(m *nats.Msg, err error) {
	it, ok := p.take(m)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed = append(p.failed, it); len(p.failed) == 1 { // one line for each round
		p.log.Warn().Err(err).Str("subject", it.subject).Msg("not published yet; it is tried again every second")
	}
}

// repeat publishes what failed before.
func (p *poster) repeat(ctx context.Context) {
	p.mu.Lock()
	failed := p.failed
	p.failed = nil
	p.mu.Unlock()
	for _, it := range failed {
		if p.superseded(it) {
			p.ledger.Published(it.note)
			continue
		}
		p.send(ctx, it)
	}
}

// superseded reports whether the call has a newer result.
func (p *poster) superseded(it posting) bool {
	if it.call == "" {
		return false
	}
	r, err := p.ledger.Record(it.call)
	return err == nil && r.Result != it.note.Result
}
