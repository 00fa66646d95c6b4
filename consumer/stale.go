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

// staleEvery is how often schedules are held against the ledger: it lists them all.
const staleEvery = 30 * time.Second

// sweepStale deletes schedules that no call waits for any more. The server removes a
// schedule as it fires, but a killed one may find it again without knowing that it is
// to be fired: it would stay for ever. What is younger than its record is left alone.
func (c *Consumer) sweepStale(ctx context.Context) error {
	if time.Since(c.sweep.stale) < staleEvery {
		return nil
	}
	c.sweep.stale = time.Now()
	st, err := c.js.Stream(ctx, c.names.Retry)
	if err != nil || st.CachedInfo().State.Msgs == 0 {
		return err
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(c.cfg.Subjects.Prefix+".sched.>"))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		r, err := c.cfg.Ledger.Record(subject[strings.LastIndexByte(subject, '.')+1:])
		if err != nil || r.State == dedupe.Waiting {
			continue // waited for, or of a call the ledger does not know: nobody's to delete
		}
		if err := deleteUpTo(ctx, st, subject, r.Token); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// deleteUpTo deletes a subject's message unless its token is newer. One that
// replaced it meanwhile has another sequence.
func deleteUpTo(ctx context.Context, st jetstream.Stream, subject string, token uint64) error {
	m, err := st.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	t, err := strconv.ParseUint(m.Header.Get(schemas.HeaderToken), 10, 64)
	if err != nil || t > token {
		return nil // not ours
	}
	if err := st.DeleteMsg(ctx, m.Sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return err
	}
	return nil
}
