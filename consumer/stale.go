package consumer

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

const (
	// staleEvery is how often schedules are held against the ledger.
	staleEvery = 30 * time.Second
	// staleStep is how many at a time. A list of all of them would be large, in the
	// server and here, and there is no hurry.
	staleStep = 500
)

// sweepStale deletes schedules that no call waits for any more. The server removes a
// schedule as it fires, but a killed one may find it again without knowing that it is
// to be fired: it would stay for ever. It takes a step at a time, and begins anew
// behind the last.
func (c *Consumer) sweepStale(ctx context.Context) error {
	if time.Since(c.sweep.stale) < staleEvery {
		return nil
	}
	c.sweep.stale = time.Now()
	st, err := c.js.Stream(ctx, c.names.Retry)
	if err != nil || st.CachedInfo().State.Msgs == 0 {
		return err
	}
	for range staleStep {
		m, err := st.GetMsg(ctx, c.sweep.seen+1, jetstream.WithGetMsgSubject(c.cfg.Subjects.Prefix+".sched.>"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			c.sweep.seen = 0
			return nil
		}
		if err == nil {
			err = c.removeStale(ctx, st, m)
		}
		if err != nil {
			return err
		}
		c.sweep.seen = m.Sequence
	}
	return nil
}

// removeStale deletes a schedule unless its call waits, or its token is newer than
// the record, or the ledger does not know the call: then it is nobody's to delete.
// One that replaced it meanwhile has another sequence.
func (c *Consumer) removeStale(ctx context.Context, st jetstream.Stream, m *jetstream.RawStreamMsg) error {
	r, err := c.cfg.Ledger.Record(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	if err != nil || r.State == dedupe.Waiting {
		return nil
	}
	token, err := strconv.ParseUint(m.Header.Get(schemas.HeaderToken), 10, 64)
	if err != nil || token > r.Token {
		return nil
	}
	err = st.DeleteMsg(ctx, m.Sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return nil
	}
	return err
}
