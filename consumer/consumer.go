// Package consumer is JetStream in, settlement out: the only package that receives
// or acknowledges stream messages. It declares the streams and consumers, takes a
// slot before a message, keeps what it holds alive, settles each delivery once, and
// sweeps up what nobody pulls. What the ledger owes goes out through its outbox.
//
// No decision about a call is taken here.
package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// Ledger is what the consumer asks the ledger.
type Ledger interface {
	Owing
	dispatcher.Records
	Overdue(before time.Time) []string
	Pauses() map[string]dedupe.Pause
}

// Config is what a consumer stands on. Everything without a default is required.
type Config struct {
	NATS          *nats.Conn
	JetStream     jetstream.JetStream
	Subjects      schemas.Subjects
	Limits        Limits
	Dispatcher    *dispatcher.Dispatcher
	Tools         []*dispatcher.Tool
	Ledger        Ledger
	Outbox        *Outbox
	Log           zerolog.Logger
	ShutdownGrace time.Duration // running attempts may take this long to finish; 0: 10 s
	SweepEvery    time.Duration // 0: 10 s
	UnservedGrace time.Duration // before a message of an unknown tool is refused; 0: 1 minute
	Recovery      time.Duration // between looks for lost attempts; 0: 5 s
	Ready         func()        // called once, when everything pulls; nil: nobody
}

// Consumer connects the streams to a dispatcher. It is also the dispatcher's
// [dispatcher.Requests].
type Consumer struct {
	cfg   Config
	js    jetstream.JetStream
	names Names
	held  held
	acked chan struct{} // something was acknowledged
	bound []*source     // set before anything pulls or sweeps
	pulls atomic.Bool   // bound, and not stopping
	sweep sweeper
}

// New returns a consumer. It does nothing before Run. The dispatcher may be set
// with Serve later, since each needs the other.
func New(cfg Config) *Consumer {
	cfg.Limits = cfg.Limits.withDefaults()
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&cfg.ShutdownGrace, 10*time.Second)
	def(&cfg.SweepEvery, 10*time.Second)
	def(&cfg.UnservedGrace, time.Minute)
	def(&cfg.Recovery, 5*time.Second)
	return &Consumer{cfg: cfg, js: cfg.JetStream, names: StreamNames(cfg.Subjects), held: held{msgs: map[*nats.Msg]struct{}{}}, acked: make(chan struct{}, 1),
		sweep: sweeper{woken: map[string]time.Time{}}}
}

// Serve sets the dispatcher that deliveries go to.
func (c *Consumer) Serve(d *dispatcher.Dispatcher) { c.cfg.Dispatcher = d }

// OnReady sets what is called once, when everything pulls.
func (c *Consumer) OnReady(f func()) { c.cfg.Ready = f }

// Run serves until ctx ends, and then stops in named stages:
//
//	stop pulling   at once; what is buffered is handed back at once
//	finish         running attempts get the shutdown grace
//	interrupt      what still runs is ended with the cause ErrShutdown and settled
//	flush          results and audit entries on their way get 5 s; the rest stays owed
//
// Running attempts that ignore their context are left after their own grace.
func (c *Consumer) Run(ctx context.Context) error {
	if err := Ensure(ctx, c.js, Streams(c.cfg.Subjects, c.cfg.Limits)); err != nil {
		return err
	}
	sources, err := c.sources(ctx)
	if err != nil {
		return err
	}
	c.bound = sources
	work, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	flush, endFlush := context.WithCancel(context.WithoutCancel(ctx))
	defer endFlush()
	posting, stopPosting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPosting()

	var outbox, background, pulling, attempts sync.WaitGroup
	outbox.Go(func() { c.cfg.Outbox.Run(posting, flush) })
	outbox.Go(func() { c.cfg.Outbox.Owed(posting) })
	alive, dead := context.WithCancel(context.WithoutCancel(ctx))
	defer dead()
	background.Go(func() { c.held.run(alive, c.cfg.Limits.AckWait/3) })

	if n, err := c.cfg.Dispatcher.Recover(work, c.cfg.Ledger); err != nil {
		c.cfg.Log.Error().Err(err).Msg("recovery will be tried again")
	} else if n > 0 {
		c.cfg.Log.Warn().Int("attempts", n).Msg("recovered attempts that a dead process had left")
	}
	background.Go(func() { every(ctx, c.cfg.Recovery, func() { c.recover(work) }) })
	background.Go(func() { every(ctx, c.cfg.SweepEvery, func() { c.Sweep(ctx) }) })
	background.Go(func() { c.trimming(ctx, sources) })
	for _, s := range sources {
		pulling.Go(func() { s.run(ctx, work, &attempts) })
	}
	c.pulls.Store(true)
	if c.cfg.Ready != nil {
		c.cfg.Ready()
	}
	<-ctx.Done()
	c.pulls.Store(false)
	c.cfg.Log.Info().Msg("shutdown: no more pulling")
	pulling.Wait()
	if !waitFor(&attempts, c.cfg.ShutdownGrace) {
		c.cfg.Log.Warn().Msg("shutdown: interrupting attempts that are still running")
		interrupt(dispatcher.ErrShutdown)
		attempts.Wait()
	}
	stopPosting()
	if !waitFor(&outbox, 5*time.Second) {
		endFlush()
		outbox.Wait()
	}
	interrupt(dispatcher.ErrShutdown) // a recovery that waits for a ledger which cannot commit would wait for ever
	dead()
	background.Wait()
	return nil
}

func (c *Consumer) recover(ctx context.Context) {
	if _, err := c.cfg.Dispatcher.Recover(ctx, c.cfg.Ledger); err != nil && ctx.Err() == nil {
		c.cfg.Log.Error().Err(err).Msg("recovery will be tried again")
	}
}

// sources binds every tool's consumers: two lanes, and each lane's retries.
func (c *Consumer) sources(ctx context.Context) ([]*source, error) {
	var all []*source
	var problems []error
	for _, t := range c.cfg.Tools {
		for _, lane := range []schemas.Lane{schemas.Calls, schemas.Jobs} {
			for _, retry := range []bool{false, true} {
				s := &source{c: c, tool: t, lane: lane, retry: retry, slots: c.cfg.Dispatcher.Slots(t)}
				if err := c.bind(ctx, s); err != nil {
					problems = append(problems, err)
					continue
				}
				all = append(all, s)
			}
		}
	}
	return all, errors.Join(problems...)
}

// bind makes the source's durable consumer what it has to be.
func (c *Consumer) bind(ctx context.Context, s *source) error {
	stream := c.names.Lane(s.lane)
	if s.retry {
		stream = c.names.Retry
	}
	want := consumerConfig(c.cfg.Subjects, s.lane, s.tool.Name, s.retry, s.tool.Concurrency, c.cfg.Limits.AckWait)
	from, err := c.js.CreateOrUpdateConsumer(ctx, stream, want)
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", want.Durable, stream, err)
	}
	s.pullFrom(from)
	return nil
}

func (c *Consumer) paused(tool string) bool {
	_, ok := c.cfg.Ledger.Pauses()[tool]
	return ok
}

// every calls f at the interval until ctx ends.
func every(ctx context.Context, d time.Duration, f func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f()
		}
	}
}

// waitFor waits for wg, at most d, and reports whether it is done.
func waitFor(wg *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
