package badinput

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// badStreams takes the server and its streams away while calls are on their way.
func badStreams(t *testing.T, b *table) {
	var s worldtest.Seen
	gate := make(chan struct{}, 100)
	p := newPlace(t, "  slow: { function: slow, effect: write, concurrency: 4, policies: [quick] }\n  flaky: { function: flaky, effect: read, concurrency: 4, dependency: free, policies: [slow] }\n",
		map[string]function.Func{
			"slow": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
				s.Add(in)
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return "ok", nil
			},
			"flaky": func(_ context.Context, in dispatcher.Invocation) (any, error) {
				if s.Add(in); in.Attempt == 1 {
					return nil, function.Transient("BUSY", "busy", 2*time.Second)
				}
				return "ok", nil
			},
		})
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"the server away for a second, a call running", func() { p.Node.Restart(t, time.Second) }},
		{"the calls stream purged, a call running", func() { p.Purge("TOLLGATE_CALLS", "tollgate.calls.>") }},
		{"the consumer of a tool deleted, a call running", func() { p.remove(p.JS.DeleteConsumer(p.ctx(), "TOLLGATE_CALLS", "calls-slow")) }},
	} {
		m := worldtest.Msg{Tool: "slow", Run: "streams", Key: dashed(c.name)}
		p.Publish(m)
		p.Until(patience, "the call runs", func() bool { return s.Of(m) == 1 })
		c.do()
		gate <- struct{}{}
		p.oneEnd(b, &s, m, c.name, 1)
	}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"the retries purged, a call waiting for its next attempt", func() { p.Purge("TOLLGATE_RETRY", "tollgate.>") }},
		{"the server away when a retry is due", func() { p.Node.Restart(t, 3*time.Second) }},
		{"the retry stream deleted, a call waiting, and a restart", func() { p.Again(func() { p.remove(p.JS.DeleteStream(p.ctx(), "TOLLGATE_RETRY")) }) }},
		{"all results deleted, and a restart", func() { p.Again(func() { p.remove(p.JS.DeleteStream(p.ctx(), "TOLLGATE_RESULTS")) }) }},
	} {
		m := worldtest.Msg{Tool: "flaky", Run: "waits", Key: dashed(c.name)}
		p.Publish(m)
		p.Until(patience, "the call waits", func() bool { return s.Of(m) == 1 && p.Messages("TOLLGATE_RETRY") > 0 })
		c.do()
		p.oneEnd(b, &s, m, c.name, 2)
	}
	p.otherOwner(b)
}

func (p *place) ctx() context.Context { return p.T.Context() }

func (p *place) remove(err error) {
	p.T.Helper()
	if err != nil {
		p.T.Fatal(err)
	}
}

// oneEnd fails unless the call succeeds after so many executions and stays so.
func (p *place) oneEnd(b *table, s *worldtest.Seen, m worldtest.Msg, name string, runs int) {
	p.T.Helper()
	o := p.Outcome(m, 2*patience)
	if again := p.Do(m); o.Status != schemas.Succeeded || s.Of(m) != runs || !again.Repeated || again.ID != o.ID {
		p.T.Errorf("%s: %s after %d executions, asked again: %s", name, o.Status, s.Of(m), again.Status)
	}
	b.expect(p.T, "NATS", name, ended(o), "outcome succeeded")
	p.serves(name)
}

// otherOwner puts garbage where the ownership of the ledger is kept: the dispatcher
// must not go on to serve beside whoever wrote that, nor start over it.
func (p *place) otherOwner(b *table) {
	kv, err := p.JS.KeyValue(p.ctx(), "TOLLGATE_OWNER")
	if err != nil {
		p.T.Fatal(err)
	}
	keys, err := kv.Keys(p.ctx())
	if err != nil || len(keys) == 0 {
		p.T.Fatalf("%v: %v", keys, err)
	}
	for _, k := range keys {
		if _, err := kv.Put(p.ctx(), k, []byte("\xff{")); err != nil {
			p.T.Fatal(err)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- p.App.Wait() }()
	select {
	case err := <-stopped:
		b.expect(p.T, "NATS", "garbage in the owner's key of a running dispatcher", "it stops: "+brief(err.Error()), "owner")
	case <-time.After(patience):
		p.T.Fatal("it goes on beside another owner")
	}
	p.App = nil
	_, err = app.Start(p.ctx(), p.Options())
	if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
		p.T.Fatalf("it starts over an owner it cannot read: %v", err)
	}
	b.add(p.T, "NATS", "garbage in the owner's key at the start", "it does not start: "+brief(err.Error()))
}
