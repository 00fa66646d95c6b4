// Package app puts the parts together: server or connection, ledger, ownership,
// catalogue, dispatcher, consumer, letters, services. It is the one place that
// knows them all, and it starts and stops them in order.
//
// Nothing is decided here, and nothing here is needed to understand a part.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/console"
	"tollgate/consumer"
	"tollgate/deadletter"
	"tollgate/dedupe/bolt"
	"tollgate/dispatcher"
	"tollgate/internal/config"
	"tollgate/internal/embedded"
	"tollgate/internal/history"
	"tollgate/internal/metrics"
	"tollgate/internal/owner"
	"tollgate/internal/web"
	"tollgate/replays"
	"tollgate/schemas"
	"tollgate/tools"
	"tollgate/tools/exec"
	"tollgate/tools/function"
)

// Options are what an App is made of.
type Options struct {
	Config    *config.Config
	Functions map[string]function.Func // that tools may name
	Log       zerolog.Logger
	Version   string
	Recover   bool                       // an operator says that this ledger file is the true one from now on
	Conn      func() (*nats.Conn, error) // for tests: instead of what the configuration says
	Sweep     time.Duration              // for tests: between sweeps; 0 is the default
	FileID    string                     // for tests: says that a copied ledger is the same file
	AckWait   time.Duration              // for tests: of the consumers; 0 is the default
	Commit    func(func() error) error   // for tests: around every commit of the ledger
}

// App is a running dispatcher.
type App struct {
	opts      Options
	subjects  schemas.Subjects
	names     consumer.Names
	server    *embedded.Server // nil: external
	nc        *nats.Conn
	tnc       *nats.Conn // of tools that are NATS services; nil: there are none
	js        jetstream.JetStream
	ledger    *bolt.Ledger
	term      *owner.Term
	catalogue *tools.Catalogue
	tools     []*dispatcher.Tool
	outbox    *consumer.Outbox
	consumer  *consumer.Consumer
	disp      *dispatcher.Dispatcher
	letters   *deadletter.Operations
	replays   *replays.Runner
	metrics   *metrics.Metrics
	history   *history.Recorder
	http      *web.Listener // nil: nobody asked for one
	console   *console.Console

	stop      context.CancelCauseFunc
	answering chan struct{} // closed when the control services answer
	done      chan struct{}
	err       error
}

// Start starts a dispatcher and returns when it serves. It runs until ctx ends.
func Start(ctx context.Context, o Options) (*App, error) {
	a := &App{opts: o, answering: make(chan struct{}), done: make(chan struct{})}
	if err := a.assemble(ctx); err != nil {
		a.close()
		return nil, err
	}
	run, stop := context.WithCancelCause(ctx)
	a.stop = stop
	ready := make(chan struct{})
	a.consumer.OnReady(func() { close(ready) })
	go a.run(run)
	for _, part := range []chan struct{}{ready, a.answering} {
		select {
		case <-part:
		case <-a.done:
			return nil, errors.Join(a.err, errors.New("the dispatcher stopped while it was starting"))
		}
	}
	return a, nil
}

// Wait returns when the dispatcher has stopped: nil after an orderly stop.
func (a *App) Wait() error {
	<-a.done
	return a.err
}

// Stop begins an orderly stop.
func (a *App) Stop() { a.stop(nil) }

// ClientURL is where clients connect; "" when the embedded server does not listen.
func (a *App) ClientURL() string {
	if a.server != nil {
		return a.server.ClientURL()
	}
	return a.opts.Config.NATS.URL
}

// Conn is the dispatcher's own connection.
func (a *App) Conn() *nats.Conn { return a.nc }

// Ledger is the dispatcher's ledger, for tests and benchmarks in this process.
func (a *App) Ledger() *bolt.Ledger { return a.ledger }

// Dispatcher is the dispatcher itself, for tests and benchmarks in this process.
func (a *App) Dispatcher() *dispatcher.Dispatcher { return a.disp }

// Server is the embedded server, or nil.
func (a *App) Server() *embedded.Server { return a.server }

// run serves until ctx ends or the ownership is lost, and then stops in order.
func (a *App) run(ctx context.Context) {
	defer close(a.done)
	defer a.close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	fail := func(what string, err error) {
		if err == nil {
			return
		}
		mu.Lock()
		a.err = errors.Join(a.err, fmt.Errorf("%s: %w", what, err))
		mu.Unlock()
		a.stop(err)
	}
	work, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	context.AfterFunc(ctx, func() {
		time.AfterFunc(a.opts.Config.Limits.ShutdownGrace.D(), func() { interrupt(dispatcher.ErrShutdown) })
	})
	term, endTerm := context.WithCancel(context.WithoutCancel(ctx)) // held until nothing runs any more
	wg.Go(func() { fail("ownership of the ledger", a.term.Run(term)) })
	wg.Go(func() { paceHeap(term) })
	var serving sync.WaitGroup
	serving.Go(func() { fail("consumer", a.consumer.Run(ctx)) })
	serving.Go(func() { fail("control", a.serveControl(ctx, work)) })
	serving.Go(func() { a.expireLetters(ctx) })
	serving.Go(func() { a.letters.Index.Warm(ctx, lettersEvery, a.lettersUnread) })
	serving.Go(func() { a.keepHistory(ctx) })
	serving.Go(func() { fail("bulk replays", a.replays.Run(ctx)) })
	if a.http != nil {
		wg.Go(func() { fail("the operators' listener", a.serveHTTP(term)) }) // also while running calls finish
	}
	if a.server != nil {
		serving.Go(func() { fail("embedded NATS", a.watchServer(ctx)) })
	}
	if os.Getpid() == 1 { // nobody else collects what a command leaves behind
		wg.Go(func() { fail("orphan reaper", exec.Reap(term)) })
	}
	serving.Wait()
	endTerm()
	wg.Wait()
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := a.term.Release(release); err != nil {
		a.opts.Log.Warn().Err(err).Msg("the ownership was not released; a restart takes it over all the same")
	}
}

// watchServer returns when the embedded server has taken no writes for some seconds.
// It never takes any again in this process, and results that it acknowledged may not
// be on the disk: the next start publishes them once more.
func (a *App) watchServer(ctx context.Context) error {
	const looks = 3
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for ill := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		why := a.server.Ill()
		a.ledger.Keep(why != nil)
		if why == nil {
			ill = 0
		} else if ill++; ill == looks {
			return fmt.Errorf("it takes no more writes until it is started again; make room on its disk and start the dispatcher: %w", why)
		}
	}
}

// lettersEvery is how often the index of letters looks for new ones by itself.
const lettersEvery = 30 * time.Second

func (a *App) lettersUnread(err error) {
	a.opts.Log.Warn().Err(err).Msg("dead letters not indexed; whoever looks, and the next round, tries again")
}

// expireLetters removes, once an hour or sooner, letters that were dealt with and are
// older than the ledger's own memory. The first round comes soon after the start: a
// dispatcher that is started again every half hour would never come to it.
func (a *App) expireLetters(ctx context.Context) {
	every := min(time.Hour, a.opts.Config.Ledger.Retention.D()/4)
	next := min(time.Minute, every)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
			next = every
		}
		n, err := a.letters.Expire(ctx, a.opts.Config.Ledger.Retention.D())
		if err != nil && ctx.Err() == nil {
			a.opts.Log.Warn().Err(err).Msg("dead letters not expired; the next round goes on")
		} else if n > 0 {
			a.opts.Log.Info().Int("letters", n).Msg("expired dead letters that were dealt with")
		}
	}
}

// close stops what was started, in the opposite order.
func (a *App) close() {
	if a.http != nil {
		_ = a.http.Close() // of a start that failed; else it is closed already
	}
	if a.ledger != nil {
		if err := a.ledger.Close(); err != nil {
			a.err = errors.Join(a.err, fmt.Errorf("close ledger: %w", err))
		}
	}
	for _, t := range a.tools {
		if c, ok := t.Executor.(interface{ Close() }); ok {
			c.Close()
		}
	}
	for _, nc := range []*nats.Conn{a.tnc, a.nc} {
		if nc != nil {
			nc.Close()
		}
	}
	if a.server != nil {
		a.server.Shutdown()
	}
}

// openLedger opens the file and takes its ownership. A file made here that turns
// out to be in the place of a missing one is removed again.
func (a *App) openLedger(ctx context.Context) error {
	c := a.opts.Config
	_, statErr := os.Stat(c.Path(c.Ledger.Path))
	fresh := errors.Is(statErr, os.ErrNotExist)
	opts := bolt.Options{Sync: c.Ledger.Sync.Every, Retention: c.Ledger.Retention.D() + a.longestDeadline(), Create: true,
		KeepPublished: a.keepPublished(), Commit: a.opts.Commit}
	if a.opts.Recover {
		opts.Horizon = time.Now()
	}
	if err := makeParent(c.Path(c.Ledger.Path)); err != nil {
		return err
	}
	l, err := a.openRecovering(c.Path(c.Ledger.Path), opts)
	if err != nil {
		return err
	}
	a.ledger = l
	term, err := owner.Acquire(ctx, a.js, l.ID(), l.Epoch(), owner.Options{Bucket: a.names.Owner, File: a.fileID(), Fresh: fresh, Recover: a.opts.Recover, Log: a.opts.Log})
	if err != nil {
		err = errors.Join(err, l.SetEpoch(ctx, l.Epoch()-1))
		if fresh {
			err = errors.Join(err, l.Close(), os.Remove(c.Path(c.Ledger.Path)))
			a.ledger = nil
		}
		return err
	}
	a.term = term
	if a.opts.Recover {
		return a.importStreams(ctx)
	}
	return nil
}

func (a *App) fileID() string {
	if a.opts.FileID != "" {
		return a.opts.FileID
	}
	return owner.FileID(a.opts.Config.Path(a.opts.Config.Ledger.Path))
}

func (a *App) longestDeadline() time.Duration {
	var d time.Duration
	for _, p := range a.opts.Config.Policies {
		d = max(d, p.MaxDeadline.D())
	}
	return d
}

// pauses lets the dispatcher ask the ledger.
type pauses struct{ l *bolt.Ledger }

func (p pauses) Paused(tool string) bool {
	_, ok := p.l.Pauses()[tool]
	return ok
}
