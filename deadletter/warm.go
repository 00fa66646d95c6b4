package deadletter

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// many letters, read at once, leave a hundred megabytes of garbage behind, which is
// given back to the system at once: nothing else here would collect it for minutes.
const many = 10_000

// Warm keeps the index near the present until ctx ends, so that nobody who looks has
// to wait for all of it. What cannot be read now is told to failed and tried again.
func (x *Index) Warm(ctx context.Context, every time.Duration, failed func(error)) {
	for {
		pause, before := every, x.count()
		_, err := x.letters(ctx)
		if err == nil || ctx.Err() != nil {
			err = x.keep(ctx)
		}
		if x.count() > before+many {
			debug.FreeOSMemory()
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, jetstream.ErrStreamNotFound): // the first start of all makes it in a moment
			pause = min(every, time.Second)
		case err != nil:
			failed(err)
		}
		select {
		case <-ctx.Done():
			if err := x.keep(ctx); err != nil {
				failed(err)
			}
			return
		case <-time.After(pause):
		}
	}
}

// keep writes a snapshot if one is due.
func (x *Index) keep(ctx context.Context) error {
	leave, err := x.enter(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer leave()
	return x.save(ctx.Err() != nil)
}
