package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// timed runs send and returns the time until n results have arrived.
func timed(ctx context.Context, nc *nats.Conn, results string, n int, send func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, roundWithin)
	defer cancel()
	var arrived atomic.Int64
	all := make(chan struct{})
	sub, err := nc.Subscribe(results, func(*nats.Msg) {
		if arrived.Add(1) == int64(n) {
			close(all)
		}
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails with the connection only
	if err := errors.Join(sub.SetPendingLimits(-1, -1), nc.Flush()); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := send(ctx); err != nil {
		return 0, err
	}
	select {
	case <-all:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%d of %d results after %v: %w", arrived.Load(), n, roundWithin, ctx.Err())
	}
}

// calm waits until this process has nothing to do, for ten seconds at most. A round ends
// with its last result, and leaves work behind: acknowledgements that the server has yet
// to write, each with a sync, or messages to be trimmed. That is not the next round's to
// pay for, whoever has left it.
func calm(ctx context.Context) {
	const look = 100 * time.Millisecond
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && ctx.Err() == nil; {
		before := cpuTime()
		time.Sleep(look)
		if cpuTime()-before < look/20 {
			return
		}
	}
}

// oneByOne publishes a message, waits for its result, and begins again.
func oneByOne(ctx context.Context, pause time.Duration, nc *nats.Conn, js jetstream.JetStream, results string, next func(i int) *nats.Msg) ([]time.Duration, error) {
	sub, err := nc.SubscribeSync(results)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails with the connection only
	if err := nc.Flush(); err != nil {
		return nil, err
	}
	return repeat(ctx, idleCalls, pause, func(i int) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := js.PublishMsg(ctx, next(i)); err != nil {
			return err
		}
		_, err := sub.NextMsgWithContext(ctx)
		return err
	})
}

// repeat calls f n times, each after a pause of at most so long: something that
// polls cannot be measured from the end of its own poll.
func repeat(ctx context.Context, n int, pause time.Duration, f func(i int) error) ([]time.Duration, error) {
	var took []time.Duration
	for i := range n {
		if pause > 0 {
			select {
			case <-time.After(rand.N(pause)):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		began := time.Now()
		if err := f(i); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
