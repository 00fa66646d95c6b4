package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/schemas"
)

// agent is what an agent service does, with nothing but a NATS client.
type agent struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// request is one call as an agent makes it.
type request struct {
	tool, run, key string
	args           any
	header         map[string]string // further headers
}

// outcomeWithin bounds the wait for one outcome.
const outcomeWithin = 20 * time.Second

// call publishes a call and waits for its outcome, or its refusal.
func (a *agent) call(ctx context.Context, q request) (*schemas.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	answers, err := a.nc.SubscribeSync("tollgate.results.default." + schemas.Root(q.run) + ".>")
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }() // it fails with the connection only
	m, err := q.message()
	if err != nil {
		return nil, err
	}
	if _, err := a.js.PublishMsg(ctx, m); err != nil {
		return nil, fmt.Errorf("publish a call of %s: %w", q.tool, err)
	}
	for {
		reply, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("wait for the outcome of %s, key %s: %w", q.tool, q.key, err)
		}
		var o schemas.Outcome
		if err := json.Unmarshal(reply.Data, &o); err != nil {
			return nil, fmt.Errorf("read an outcome: %w", err)
		}
		if o.Key == q.key && o.Tool == q.tool {
			return &o, nil
		}
	}
}

func (q request) message() (*nats.Msg, error) {
	body, err := json.Marshal(q.args)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg("tollgate.calls.default." + q.tool)
	m.Data = body
	m.Header.Set("Tollgate-Run-Id", q.run)
	m.Header.Set("Idempotency-Key", q.key)
	m.Header.Set("Tollgate-Deadline", time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano))
	m.Header.Set("Nats-Msg-Id", rand.Text())
	for name, value := range q.header {
		m.Header.Set(name, value)
	}
	return m, nil
}

// outcome waits until the stored outcome of a call is at least of a generation.
func (a *agent) outcome(ctx context.Context, o *schemas.Outcome, generation int) (*schemas.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	results, err := a.js.Stream(ctx, "TOLLGATE_RESULTS")
	if err != nil {
		return nil, err
	}
	for {
		m, err := results.GetLastMsgForSubject(ctx, "tollgate.results.default."+schemas.Root(o.Run)+"."+o.Call)
		if err != nil {
			return nil, fmt.Errorf("read the outcome of %s: %w", o.Call, err)
		}
		var now schemas.Outcome
		if err := json.Unmarshal(m.Data, &now); err != nil {
			return nil, err
		}
		if now.Generation >= generation {
			return &now, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("no outcome of %s in generation %d: %w", o.Call, generation, ctx.Err())
		}
	}
}
