package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/demo"
	"tollgate/schemas"
)

// agents make the calls, through connections that come and go.
type agents struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	ctl   *control.Client
	world *demo.World
	book  *book
	calls time.Duration // how long a call may last
}

func newAgents(url string, world *demo.World, b *book, window time.Duration) (*agents, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	subjects, err := schemas.NewSubjects("")
	if err != nil {
		return nil, err
	}
	a := &agents{nc: nc, js: js, ctl: &control.Client{NATS: nc, Subjects: subjects, By: "soak"}, world: world, book: b, calls: window}
	if _, err := nc.Subscribe("tollgate.results.>", func(m *nats.Msg) { b.read(m.Data) }); err != nil {
		return nil, err
	}
	_, err = nc.Subscribe("soak.echo", func(m *nats.Msg) {
		_ = m.Respond(m.Data) // nobody waits when the server has gone away
	})
	return a, err
}

// patience is how long after its deadline an accepted call may still be without an
// outcome, or a letter undealt with: the ack wait, twice, and the time that the faults
// may take. A nats-server that met a full disk may hang for two minutes before its
// supervisor notices.
const patience = 5 * time.Minute

// run makes the calls of one run, deals with its letters, and holds what was seen
// against what was charged.
func (a *agents) run(ctx context.Context, steps []step) {
	watches := make([]*watch, len(steps))
	var wg sync.WaitGroup
	for i, s := range steps {
		if i%wave == 0 {
			wg.Wait()
		}
		watches[i] = a.book.watch(s.call())
		wg.Go(func() { a.call(ctx, s, watches[i]) })
	}
	wg.Wait()
	for i, s := range steps {
		if o := a.book.at(watches[i], 0); o != nil {
			a.operate(ctx, s, watches[i])
		}
	}
	if ctx.Err() == nil {
		a.settle(ctx, steps, watches)
	}
	for _, s := range steps {
		a.book.forget(s.call())
	}
}

// call makes one call and waits for its end.
func (a *agents) call(ctx context.Context, s step, w *watch) {
	deadline := time.Now().Add(a.calls)
	m, err := s.message(deadline)
	if err != nil {
		a.book.fault("%v", err)
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(patience))
	defer cancel()
	if s.request {
		a.ask(ctx, s, m)
	} else if !a.publish(ctx, s, m) {
		return
	}
	if s.cancel {
		a.cancel(ctx, s)
	}
	if a.wait(ctx, s, w, 0) == nil || !s.again {
		return
	}
	m.Header.Set(schemas.HeaderMessageID, rand.Text())
	if a.publish(ctx, s, m) { // the same outcome comes again, or nothing at all
		a.wait(ctx, s, w, 0)
	}
}

// cancel cancels a call in the middle of its attempt. It is of no consequence when
// nobody answers: the call ends in another way.
func (a *agents) cancel(ctx context.Context, s step) {
	time.Sleep(time.Duration(s.args.WaitMS/2) * time.Millisecond)
	ctx, done := context.WithTimeout(ctx, 5*time.Second)
	defer done()
	_, _ = a.ctl.Cancel(ctx, "default", dispatcher.CancelRequest{Call: s.call(), Reason: "the soak cancels some"})
}

func (s step) message(deadline time.Time) (*nats.Msg, error) {
	body, err := json.Marshal(s.args)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg("tollgate." + string(s.lane) + ".default." + s.tool)
	if s.request {
		m.Subject = "tollgate.do.default." + s.tool
	}
	m.Data = body
	m.Header.Set(schemas.HeaderRun, s.run)
	m.Header.Set(schemas.HeaderKey, s.key)
	m.Header.Set(schemas.HeaderDeadline, deadline.UTC().Format(time.RFC3339Nano))
	m.Header.Set(schemas.HeaderMessageID, rand.Text())
	if s.budget != "" {
		m.Header.Set(schemas.HeaderRunAttempts, s.budget)
	}
	return m, nil
}

// publish repeats the same message until the server has taken it.
func (a *agents) publish(ctx context.Context, s step, m *nats.Msg) bool {
	err := insist(ctx, 2*time.Second, func(ctx context.Context) error {
		_, err := a.js.PublishMsg(ctx, m)
		return err
	})
	if err != nil && context.Cause(ctx) != errStopped {
		a.book.fault("%s was never accepted: %v", s.name(), err)
	}
	return err == nil
}

// ask repeats the same request until its outcome is the recorded one.
func (a *agents) ask(ctx context.Context, s step, m *nats.Msg) {
	err := insist(ctx, 15*time.Second, func(ctx context.Context) error {
		reply, err := a.nc.RequestMsgWithContext(ctx, m)
		if err != nil {
			return err
		}
		var o schemas.Outcome
		if err := json.Unmarshal(reply.Data, &o); err != nil {
			return err
		}
		if o.Status == schemas.Unavailable || o.Code() == schemas.CodeStillRunning || o.Status == schemas.Rejected {
			return fmt.Errorf("%s %s", o.Status, o.Code())
		}
		a.book.note(&o)
		return nil
	})
	if err != nil && context.Cause(ctx) != errStopped {
		a.book.fault("%s was never answered by the endpoint: %v", s.name(), err)
	}
}

// wait waits for the end of a call in a generation: as it goes by, or stored when it
// was missed. It is a fault when there is none.
func (a *agents) wait(ctx context.Context, s step, w *watch, generation int) *schemas.Outcome {
	var stored error
	for {
		if o := a.book.at(w, generation); o != nil {
			return o
		}
		select {
		case <-w.changed:
		case <-time.After(2 * time.Second):
			stored = a.stored(ctx, s)
		case <-ctx.Done():
			if context.Cause(ctx) != errStopped {
				a.book.fault("I1: %s, generation %d, has no outcome: %v", s.name(), generation, stored)
			}
			return nil
		}
	}
}

// stored reads the stored outcome of a call.
func (a *agents) stored(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	m, err := a.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET.TOLLGATE_RESULTS.tollgate.results.default."+schemas.Root(s.run)+"."+s.call(), nil)
	if err != nil {
		return err
	}
	if status := m.Header.Get("Status"); status != "" {
		return fmt.Errorf("the results stream: %s %s", status, m.Header.Get("Description"))
	}
	a.book.read(m.Data)
	return nil
}

// insist tries until it works: whoever should answer may be dead just now. The error
// is the last one that was not the end of all tries.
func insist(ctx context.Context, each time.Duration, f func(context.Context) error) (err error) {
	for {
		try, cancel := context.WithTimeout(ctx, each)
		tried := f(try)
		cancel()
		if tried == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil {
			err = tried
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
