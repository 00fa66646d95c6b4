// Package client is for agents and job producers written in Go: it calls tools
// through Tollgate and says what came of it. Everything here can be done with a
// plain NATS client too; this package only saves the reading of headers.
//
//	c, err := client.Connect(nc)
//	out, err := c.Call(ctx, "crm.find", map[string]any{"name": "Ada"},
//		client.Run("run_42"), client.Key(client.StepKey("run_42", "7")))
//	if errors.Is(err, client.ErrRunBudgetExhausted) { … }
//
// One logical operation has one idempotency key, made from durable state before the
// first call. Asking again with the same key and arguments, after a crash too, gives
// the same outcome: nothing is run or charged twice.
//
// Nothing is retried here: retrying is the dispatcher's, which knows the budget. What
// the client repeats after a lost connection is the question, never the operation.
// There are no globals and no goroutines; a Client needs no closing.
package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/schemas"
)

// Outcome is the one terminal answer to a call.
type Outcome = schemas.Outcome

// Client calls tools over one NATS connection. It may be used concurrently.
type Client struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	defaults settings
	spent    *spent
}

// Connect returns a client on nc. The options are defaults for every call; a call's
// own options stand above them. Nothing is sent, and nc stays the caller's to close.
func Connect(nc *nats.Conn, opts ...Option) (*Client, error) {
	if nc == nil {
		return nil, errors.New("client: there is no connection: make one with nats.Connect")
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &Client{nc: nc, js: js, defaults: settings{tenant: "default"}, spent: newSpent()}
	for _, o := range opts {
		o(&c.defaults)
	}
	if _, err := schemas.NewSubjects(c.defaults.prefix); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return c, nil
}

// Call runs a tool and returns its outcome. args is one JSON object: []byte and
// [encoding/json.RawMessage] go out byte for byte, nil is {}, anything else is
// marshalled once. A run is required. Without a [Key] it is [ArgsKey]; without a
// [Deadline] or [Within] it is the end of ctx, and without that the policy's.
//
// An outcome other than succeeded comes back together with an *[OutcomeError]. When
// ctx ends first the error is an *[NoAnswerError]: the call goes on, and its outcome
// can be had by [Client.Result] or by the same call again.
func (c *Client) Call(ctx context.Context, tool string, args any, opts ...Option) (*Outcome, error) {
	q, err := c.request(ctx, schemas.Calls, tool, args, opts)
	if err != nil {
		return nil, err
	}
	q.message.Subject = q.subjects.Do(q.Tenant, q.Tool)
	return c.finish(c.await(ctx, q.Submission, q.message))
}

// finish remembers what an outcome says about the run and turns a failure into an error.
func (c *Client) finish(o *Outcome, err error) (*Outcome, error) {
	if err != nil {
		return nil, err
	}
	if o.Status == schemas.Succeeded {
		return o, nil
	}
	c.spent.learn(o)
	return o, &OutcomeError{Outcome: o}
}
