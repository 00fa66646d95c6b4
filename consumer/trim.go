package consumer

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// trimEvery is how long an acknowledged message stays in its lane's stream.
const trimEvery = 100 * time.Millisecond

// trimAlone is how many acknowledged messages may pile up above one that is not
// before they are deleted one by one, at the price of a sync each.
const trimAlone = 1000

// trimmer removes what a source has acknowledged. On a work queue the server does
// so at every acknowledgement, with a sync each; on a Limits stream one purge takes
// all of it. Only what the server itself counts as acknowledged is purged: a message
// handed back by an earlier process is below no floor.
//
// A purge also makes the server forget what it was about to deliver again: a message
// handed back would stay away for the whole ack wait. So nothing is purged while
// there may be such a message, and none is handed back while a purge is under way.
type trimmer struct {
	purging sync.Mutex // held by a purge, and to hand a message back; before mu

	mu    sync.Mutex           // guards what follows
	acked []uint64             // sequences above the last floor
	fresh bool                 // nothing was trimmed yet: there may be what an earlier process acknowledged
	back  map[uint64]time.Time // handed back and not delivered again yet; until when that can come

	old uint64 // up to here messages were delivered, and not all settled, before this process pulled
}

func (t *trimmer) add(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked = append(t.acked, seq)
}

// taken notes that a message was delivered, perhaps again.
func (t *trimmer) taken(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.back, seq)
}

// comesBack is how long after its delay a message that was handed back is waited for.
// One that was replaced meanwhile (a retry by the next of its call) never comes.
const comesBack = 10 * time.Second

// handBack notes that a message is about to be handed back, to come again after delay.
func (t *trimmer) handBack(seq uint64, delay time.Duration) {
	t.purging.Lock()
	defer t.purging.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.back[seq] = time.Now().Add(delay + comesBack)
}

// mayPurge reports whether the server can have nothing in hand to deliver again.
func (t *trimmer) mayPurge(floor uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.back, func(_ uint64, until time.Time) bool { return now.After(until) })
	return floor > 0 && len(t.back) == 0 && floor >= t.old
}

// below drops what a purge up to floor has removed, 0 for none, and takes out what
// has to be deleted alone.
func (t *trimmer) below(floor uint64, waits bool) (alone []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh = t.fresh && waits
	above := t.acked[:0]
	for _, seq := range t.acked {
		if seq > floor {
			above = append(above, seq)
		}
	}
	t.acked = above
	if len(above) > trimAlone {
		alone, t.acked = above, nil
	}
	return alone
}

// reset forgets everything: the consumer is a new one, or this process is.
func (t *trimmer) reset(info *jetstream.ConsumerInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked, t.fresh, t.back, t.old = nil, true, map[uint64]time.Time{}, 0
	if info.NumAckPending > 0 {
		t.old = info.Delivered.Stream
	}
}

func (t *trimmer) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.acked) == 0 && !t.fresh
}

// trim purges what the server has counted as acknowledged of one tool: of a lane as
// it is acknowledged, and of lane and retries alike at the start and now and then.
// A killed server may find a message again that it had removed for its
// acknowledgement; nobody is given that one any more.
func (s *source) trim(ctx context.Context) error {
	if (s.trimmed.idle() || s.waits) && time.Since(s.swept) < s.c.cfg.SweepEvery {
		return nil
	}
	info, err := s.durable().Info(ctx)
	if err != nil {
		return err
	}
	s.swept = time.Now()
	floor := info.AckFloor.Stream
	if floor == s.floor && s.trimmed.idle() {
		return nil
	}
	st, err := s.c.js.Stream(ctx, info.Stream)
	if err != nil {
		return err
	}
	purged, err := s.purge(ctx, st, info)
	if err != nil {
		return err
	}
	s.waits = floor > 0 && purged == 0
	if !s.waits {
		s.floor = floor
	}
	for _, seq := range s.trimmed.below(purged, s.waits) {
		if err := st.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return err
		}
	}
	return nil
}

// purge removes what is acknowledged up to the consumer's floor, and returns that
// floor; 0 when that has to wait.
func (s *source) purge(ctx context.Context, st jetstream.Stream, info *jetstream.ConsumerInfo) (uint64, error) {
	s.trimmed.purging.Lock()
	defer s.trimmed.purging.Unlock()
	floor := info.AckFloor.Stream
	if !s.trimmed.mayPurge(floor) {
		return 0, nil
	}
	if err := st.Purge(ctx, jetstream.WithPurgeSubject(info.Config.FilterSubject), jetstream.WithPurgeSequence(floor+1)); err != nil {
		return 0, err
	}
	return floor, nil
}

// trimming trims at the start, a moment after something was acknowledged, and now and then.
func (c *Consumer) trimming(ctx context.Context, sources []*source) {
	now := time.NewTicker(c.cfg.SweepEvery)
	defer now.Stop()
	c.trim(ctx, sources)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.acked:
		case <-now.C:
		}
		sleep(ctx, trimEvery)
		c.trim(ctx, sources)
	}
}

// trim trims every source once.
func (c *Consumer) trim(ctx context.Context, sources []*source) {
	for _, s := range sources {
		if err := s.trim(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Log.Debug().Err(err).Str("tool", s.tool.Name).Msg("not trimmed yet")
		}
	}
}
