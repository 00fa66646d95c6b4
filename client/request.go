package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// request is a call that is ready to be sent.
type request struct {
	Submission
	subjects schemas.Subjects
	message  *nats.Msg
}

// request makes a call and refuses here, before anything is sent, what the dispatcher
// would refuse: a call that breaks the contract, or one of a run that is spent.
func (c *Client) request(ctx context.Context, lane schemas.Lane, tool string, args any, opts []Option) (*request, error) {
	s := c.settings(opts)
	body, err := arguments(args)
	if err != nil {
		return nil, err
	}
	s.complete(ctx, tool, body)
	subjects, err := schemas.NewSubjects(s.prefix)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	h := s.header()
	q := &request{subjects: subjects, message: &nats.Msg{Subject: subjects.Submit(lane, s.tenant, tool), Header: nats.Header(h), Data: body}}
	fingerprint, err := c.check(lane, &s, tool, q.message)
	if err != nil {
		return nil, err
	}
	q.Submission = Submission{Prefix: s.prefix, Lane: lane, Tenant: s.tenant, Run: s.run, Tool: tool, Key: s.key, Fingerprint: fingerprint,
		Call: dedupe.CallID(s.tenant, schemas.Root(s.run), tool, s.key), Deadline: s.deadline, Generation: s.generation, Started: time.Now().UTC()}
	return q, c.spent.refuse(s.tenant, s.run, s.write)
}

// complete fills in what the caller left out.
func (s *settings) complete(ctx context.Context, tool string, body []byte) {
	end, ends := ctx.Deadline()
	switch {
	case s.within > 0:
		s.deadline = time.Now().Add(s.within)
	case s.deadline.IsZero() && ends:
		s.deadline = end
	}
	if s.key == "" {
		s.key = argsKey(tool, s.run, body)
	}
}

// check holds a message against the wire contract and returns its fingerprint.
func (c *Client) check(lane schemas.Lane, s *settings, tool string, m *nats.Msg) (string, error) {
	subjects, _ := schemas.NewSubjects(s.prefix)
	if _, _, _, err := subjects.ParseSubmit(m.Subject); err != nil {
		return "", fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d := schemas.Defaults{Deadline: time.Now()} // the endpoint has a better one, and Submit requires one
	if _, err := schemas.ParseRequest(lane, s.tenant, tool, schemas.Header(m.Header), m.Data, d); err != nil {
		return "", fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if most := c.nc.MaxPayload() - schemas.BodyReserve; c.nc.MaxPayload() > 0 && int64(len(m.Data)) > most {
		return "", fmt.Errorf("%w: arguments of %d bytes, at most %d: store them elsewhere and pass a reference", ErrTooLarge, len(m.Data), most)
	}
	f, err := dedupe.Fingerprint(m.Data)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMalformed, &schemas.Malformed{Field: "arguments", Problem: err.Error()})
	}
	return f, nil
}

var errNoCall = errors.New("client: the submission names no call: it needs Tenant, Run, Tool and Key")

// complete fills in what follows from the rest, for a submission made by hand.
func (s *Submission) complete() error {
	if s.Tenant == "" {
		s.Tenant = "default"
	}
	if s.Call == "" && s.Tool != "" && s.Key != "" {
		s.Call = dedupe.CallID(s.Tenant, schemas.Root(s.Run), s.Tool, s.Key)
	}
	if !schemas.ValidTenant(s.Tenant) || !schemas.ValidRun(s.Run) || !dedupe.ValidCallID(s.Call) {
		return errNoCall
	}
	return nil
}
