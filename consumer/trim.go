package consumer

import (
	"context"
	"errors"
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
type trimmer struct {
	mu    sync.Mutex // guards acked and fresh
	acked []uint64   // sequences above the last floor
	fresh bool       // nothing was trimmed yet: there may be what an earlier process acknowledged
}

func (t *trimmer) add(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked = append(t.acked, seq)
}

// below drops what a purge up to floor has removed and takes out what has to be
// deleted alone.
func (t *trimmer) below(floor uint64) (alone []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh = false
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
func (t *trimmer) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked, t.fresh = nil, true
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
	if s.trimmed.idle() && time.Since(s.swept) < s.c.cfg.SweepEvery {
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
	if floor > 0 {
		if err := st.Purge(ctx, jetstream.WithPurgeSubject(info.Config.FilterSubject), jetstream.WithPurgeSequence(floor+1)); err != nil {
			return err
		}
	}
	s.floor = floor
	for _, seq := range s.trimmed.below(floor) {
		if err := st.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return err
		}
	}
	return nil
}

// trim trims every source once.
func (c *Consumer) trim(ctx context.Context, sources []*source) {
	for _, s := range sources {
		if err := s.trim(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Log.Debug().Err(err).Str("tool", s.tool.Name).Msg("not trimmed yet")
		}
	}
}
