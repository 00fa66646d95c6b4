package consumer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// sweeper remembers which waiting calls it woke, to do so once a minute at most.
type sweeper struct {
	mu    sync.Mutex // one sweep at a time; guards all below
	woken map[string]time.Time
	stale time.Time // when schedules were last held against the ledger
	seen  uint64    // up to where; 0 is none
}

const (
	overdue   = 5 * time.Second // a schedule this late never fired
	wakeEvery = time.Minute
)

// Sweep settles or wakes what nobody pulls: waiting calls whose schedule did not
// fire, messages of tools nobody serves, and expired messages of paused tools. Each
// goes the normal path, through the gate.
func (c *Consumer) Sweep(ctx context.Context) {
	c.sweep.mu.Lock()
	defer c.sweep.mu.Unlock()
	c.remakeStreams(ctx)
	c.wakeOverdue(ctx, time.Now())
	if err := c.sweepStale(ctx); err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn().Err(err).Msg("stale schedules are not all removed; the next sweep goes on")
	}
	for _, stream := range []string{c.names.Calls, c.names.Jobs, c.names.Retry} {
		if err := c.sweepStream(ctx, stream); err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn().Err(err).Str("stream", stream).Msg("sweep interrupted; the next one goes on")
		}
	}
}

// remakeStreams makes a lane or the retries again where somebody has deleted them.
// What was on them is gone; what waits is woken from the ledger. Letters, results
// and audit are records: where those are gone an operator has to decide, and until
// then whatever owes one stays.
func (c *Consumer) remakeStreams(ctx context.Context) {
	passing := []string{c.names.Calls, c.names.Jobs, c.names.Retry}
	for _, want := range Streams(c.cfg.Subjects, c.cfg.Limits) {
		if !slices.Contains(passing, want.Name) {
			continue
		}
		if _, err := c.js.Stream(ctx, want.Name); errors.Is(err, jetstream.ErrStreamNotFound) {
			err := Ensure(ctx, c.js, []jetstream.StreamConfig{want})
			c.cfg.Log.Error().Err(err).Str("stream", want.Name).Msg("the stream was gone and is made again; what was on it is lost")
		}
	}
}

func (c *Consumer) wakeOverdue(ctx context.Context, now time.Time) {
	maps.DeleteFunc(c.sweep.woken, func(_ string, at time.Time) bool { return now.Sub(at) > 2*wakeEvery })
	for _, call := range c.cfg.Ledger.Overdue(now.Add(-overdue)) {
		if ctx.Err() != nil {
			return
		}
		if now.Sub(c.sweep.woken[call]) < wakeEvery {
			continue
		}
		if err := c.wake(ctx, call, now); err != nil {
			c.cfg.Log.Warn().Err(err).Str("call", call).Msg("overdue retry not woken yet")
			continue
		}
		c.sweep.woken[call] = now
	}
}

// wake publishes a waiting call that is overdue, unless it has gone on meanwhile.
func (c *Consumer) wake(ctx context.Context, call string, now time.Time) error {
	r, err := c.cfg.Ledger.Record(call)
	if err != nil || r.State != dedupe.Waiting || now.Sub(r.Due) <= overdue {
		return err
	}
	return c.cfg.Outbox.Wake(ctx, r)
}

// sweepStream walks the subjects of one stream that no source serves.
func (c *Consumer) sweepStream(ctx context.Context, name string) error {
	st, err := c.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	filter := c.cfg.Subjects.Prefix + ".>"
	if name == c.names.Retry {
		filter = c.cfg.Subjects.Prefix + ".retry.>"
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return err
	}
	pauses := c.cfg.Ledger.Pauses()
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		_, _, tool, parseErr := c.cfg.Subjects.ParseSubmit(subject)
		served := parseErr == nil && slices.ContainsFunc(c.served(), func(t string) bool { return t == tool })
		if _, paused := pauses[tool]; served && !paused {
			continue
		}
		if err := c.sweepSubject(ctx, st, name, subject, served); err != nil {
			return err
		}
	}
	return nil
}

func (c *Consumer) served() []string {
	names := make([]string, 0, len(c.cfg.Tools))
	for _, t := range c.cfg.Tools {
		names = append(names, t.Name)
	}
	return names
}

// sweepSubject offers every message of a subject to the dispatcher and deletes
// those it has settled. Messages of a paused tool that have not expired are
// deferred and stay; those of an unknown tool stay for a grace.
func (c *Consumer) sweepSubject(ctx context.Context, st jetstream.Stream, stream, subject string, served bool) error {
	for seq := uint64(1); ctx.Err() == nil; {
		m, err := st.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		seq = m.Sequence + 1
		d := c.stored(stream, m)
		d.Gone = !served && time.Since(m.Time) > c.cfg.UnservedGrace
		if !served && !d.Gone && schemas.ValidTool(d.Tool) {
			continue
		}
		if s := c.cfg.Dispatcher.Handle(ctx, d); s.Ack {
			if err := st.DeleteMsg(ctx, m.Sequence); err != nil && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
				return err
			}
			c.swept(m.Subject, m.Sequence)
		}
	}
	return ctx.Err()
}

// swept tells the source of a message that the message is gone: one it had handed
// back does not come again, and must not hold up its trimming.
func (c *Consumer) swept(subject string, seq uint64) {
	lane, _, tool, err := c.cfg.Subjects.ParseSubmit(subject)
	if err != nil {
		return
	}
	for _, s := range c.bound {
		if s.tool.Name == tool && s.lane == lane && s.retry == strings.HasPrefix(subject, c.cfg.Subjects.Prefix+".retry.") {
			s.trimmed.taken(seq)
		}
	}
}
