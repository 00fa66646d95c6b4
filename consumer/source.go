package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/dispatcher"
	"tollgate/schemas"
)

// source pulls one tool's messages of one lane from one stream. One goroutine owns it.
type source struct {
	c     *Consumer
	tool  *dispatcher.Tool
	lane  schemas.Lane
	retry bool
	slots *dispatcher.Slots

	mu   sync.Mutex // guards from
	from jetstream.Consumer

	gone    atomic.Bool // the consumer could not be made again, and the log says so
	trimmed trimmer
	swept   time.Time // the trimmer's: when it last looked
	floor   uint64    // the trimmer's: what it last purged
	waits   bool      // the trimmer's: there is something to purge, and it may not yet
}

func (s *source) durable() jetstream.Consumer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from
}

// pullFrom sets the consumer. What was acknowledged on one before it says nothing
// about its messages: a stream that was made again counts from 1 again.
func (s *source) pullFrom(c jetstream.Consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from = c
	s.trimmed.reset(c.CachedInfo())
}

// pullPause is how long a source stays away after the server did not answer.
const pullPause = 250 * time.Millisecond

// run pulls until pull ends, then hands back what it holds. Attempts it has
// started go on under work, and wg knows of them.
func (s *source) run(pull, work context.Context, wg *sync.WaitGroup) {
	p, err := newPuller(s.c.cfg.NATS, s.slots.Cap)
	for err != nil && pull.Err() == nil {
		s.trouble(pull, err)
		p, err = newPuller(s.c.cfg.NATS, s.slots.Cap)
	}
	if err != nil {
		return
	}
	take := func(m *nats.Msg) { s.take(pull, work, wg, m) }
	defer p.close(take)
	for pull.Err() == nil {
		if wait := s.hold(); wait > 0 {
			sleep(pull, wait)
			continue
		}
		if s.gone.Load() && !s.rebind(pull) {
			sleep(pull, pullPause)
			continue
		}
		// A slot first, then a message: ask for no more than could start now.
		release, err := s.slots.Acquire(pull, s.lane == schemas.Jobs)
		if err != nil {
			return
		}
		n := s.want()
		release()
		info := s.durable().CachedInfo()
		if err := p.pull(pull, info.Stream, info.Name, n, take); err != nil {
			s.trouble(pull, err)
		}
	}
}

// hold is how long not to pull: while an operator pauses the tool and, for jobs,
// while the dependency's breaker is open.
func (s *source) hold() time.Duration {
	if s.c.paused(s.tool.Name) {
		return 200 * time.Millisecond
	}
	if s.lane == schemas.Jobs {
		if until, open := s.c.cfg.Dispatcher.Reopens(s.tool.Dependency); open {
			return time.Until(until)
		}
	}
	return 0
}

// want is how many messages to ask for: as many as there are free slots, and one
// while a breaker lets only a probe through.
func (s *source) want() int {
	if s.lane == schemas.Jobs {
		if _, open := s.c.cfg.Dispatcher.Reopens(s.tool.Dependency); open {
			return 1
		}
	}
	return s.slots.Free(s.lane == schemas.Jobs)
}

// take gives a message a slot and starts its attempt. What comes while another
// source took the slot waits on a goroutine of its own, so that the whole batch is
// held with signals and none of it is delivered again meanwhile; at shutdown it is
// handed back at once. No more wait here than the last pull asked for.
func (s *source) take(pull, work context.Context, wg *sync.WaitGroup, m *nats.Msg) {
	s.c.held.add(m)
	wg.Go(func() {
		d := s.c.delivery(m)
		s.trimmed.taken(d.Origin.Sequence)
		release, err := s.slots.Acquire(pull, s.lane == schemas.Jobs)
		if err != nil {
			s.c.held.remove(m)
			s.trimmed.handBack(d.Origin.Sequence, 0)
			s.c.settle(m, dispatcher.Settlement{})
			return
		}
		defer release()
		done := s.c.cfg.Dispatcher.Handle(work, d)
		s.c.held.remove(m)
		if !done.Ack {
			s.trimmed.handBack(d.Origin.Sequence, min(done.Delay, longestNak))
		}
		if s.c.settle(m, done) && !s.retry {
			s.trimmed.add(d.Origin.Sequence)
			select {
			case s.c.acked <- struct{}{}:
			default: // the next trim takes this one too
			}
		}
	})
}

// trouble waits before the next pull and, where the consumer is gone, makes it
// again. The server tells of that once, to a pull that is open; after that nobody
// answers, which is also what a pull meets while JetStream is away.
func (s *source) trouble(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	s.log().Debug().Err(err).Msg("pull interrupted; pulling again")
	if errors.Is(err, errConsumerGone) || errors.Is(err, errNoHeartbeat) || errors.Is(err, nats.ErrNoResponders) {
		s.rebind(ctx)
	}
	sleep(ctx, pullPause)
}

// rebind makes the consumer again, and reports whether it is there.
func (s *source) rebind(ctx context.Context) bool {
	switch err := s.c.bind(ctx, s); {
	case err == nil && s.gone.Load():
		s.gone.Store(false)
		s.log().Info().Msg("the consumer is there again")
	case err != nil && !s.gone.Load() && ctx.Err() == nil:
		s.gone.Store(true)
		s.log().Warn().Err(err).Msg("nothing can be pulled: the consumer is gone and cannot be made again yet")
	}
	return !s.gone.Load()
}

func (s *source) log() *zerolog.Logger {
	l := s.c.cfg.Log.With().Str("tool", s.tool.Name).Str("lane", string(s.lane)).Bool("retry", s.retry).Logger()
	return &l
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
