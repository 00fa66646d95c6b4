package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/schemas"
)

// floor is the least that is to be done with a call on JetStream, on the same server
// with the same sync: consume, publish a result, ack. Whatever the product's own
// streams are, these stay what they are.
type floor struct {
	p     *product
	nc    *nats.Conn
	work  jetstream.ConsumeContext
	busy  sync.WaitGroup
	slots chan struct{}
}

// floorStreams are what anybody would take for a queue that must not lose a call,
// and for answers that can be read later.
var floorStreams = []jetstream.StreamConfig{
	{Name: "FLOOR_CALLS", Subjects: []string{"floor.calls.>"}, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxBytes: 256 << 20},
	{Name: "FLOOR_RESULTS", Subjects: []string{"floor.results.>"}, MaxMsgsPerSubject: 1, AllowDirect: true},
}

// floorAtOnce is how many messages are worked on at once, as the tool's concurrency.
const floorAtOnce = 256

func startFloor(ctx context.Context, p *product) (*floor, error) {
	nc, err := p.app.Server().Conn() // inside the process, as the dispatcher's own
	if err != nil {
		return nil, err
	}
	f := &floor{p: p, nc: nc, slots: make(chan struct{}, floorAtOnce)}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	for _, c := range floorStreams {
		if _, err := js.CreateOrUpdateStream(ctx, c); err != nil {
			return nil, err
		}
	}
	from, err := js.CreateOrUpdateConsumer(ctx, "FLOOR_CALLS", jetstream.ConsumerConfig{
		Durable: "floor", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10 * floorAtOnce})
	if err != nil {
		return nil, err
	}
	f.work, err = from.Consume(func(m jetstream.Msg) { f.take(ctx, js, m) }, jetstream.PullMaxMessages(floorAtOnce))
	return f, err
}

func (f *floor) take(ctx context.Context, js jetstream.JetStream, m jetstream.Msg) {
	f.slots <- struct{}{}
	f.busy.Go(func() {
		defer func() { <-f.slots }()
		subject := strings.Join([]string{"floor.results.default", m.Headers().Get(schemas.HeaderRun), m.Headers().Get(schemas.HeaderKey)}, ".")
		if _, err := js.Publish(ctx, subject, result); err != nil {
			return // the message comes again, and the round waits for it
		}
		_ = m.Ack()
	})
}

func (f *floor) close() {
	f.work.Stop()
	<-f.work.Closed()
	f.busy.Wait()
	f.nc.Close()
}

func (f *floor) round(ctx context.Context, n int) (time.Duration, error) {
	p := f.p
	return timed(ctx, p.conns[0], "floor.results.>", p.o.Calls, func(ctx context.Context) error {
		return each(ctx, p.o.Calls, clients, func(ctx context.Context, worker, i int) error {
			_, err := p.js[worker%clients].PublishMsg(ctx, p.o.message("floor.calls", fmt.Sprintf("r%d", n), i))
			return err
		})
	})
}

func (f *floor) latencies(ctx context.Context) ([]time.Duration, error) {
	return oneByOne(ctx, f.p.o.Pause, f.p.conns[0], f.p.js[0], "floor.results.>", func(i int) *nats.Msg { return f.p.o.message("floor.calls", "idle", i) })
}
