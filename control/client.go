package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"tollgate/dispatcher"
	"tollgate/schemas"
)

// ErrNoDispatcher is returned when nobody answers on the control subjects.
var ErrNoDispatcher = errors.New("no dispatcher answers on this server; start one with `tollgate dev` or `tollgate serve`")

// Client asks a dispatcher on behalf of an operator.
type Client struct {
	NATS     *nats.Conn
	Subjects schemas.Subjects
	By       string // who the audit says it was
	Role     Role   // what they may do; "": whatever the connection may
}

// Failure is a failed answer.
type Failure struct {
	Problem
}

func (f *Failure) Error() string { return f.What }

// Ask sends a verb with its query and reads the answer into out. A failed answer is
// a *[Failure]; [ErrNoDispatcher] means that nobody is there.
func (c *Client) Ask(ctx context.Context, verb string, query, out any) error {
	return c.request(ctx, c.Subjects.Control(verb), query, out)
}

// Cancel cancels a run or call of a tenant.
func (c *Client) Cancel(ctx context.Context, tenant string, q dispatcher.CancelRequest) (dispatcher.CancelReport, error) {
	var rep dispatcher.CancelReport
	err := c.request(ctx, c.Subjects.Cancel(tenant), q, &rep)
	return rep, err
}

func (c *Client) request(ctx context.Context, subject string, query, out any) error {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // arguments that a query carries are the tool's: they arrive as they were written
	if err := e.Encode(query); err != nil {
		return err
	}
	m, err := c.send(ctx, &nats.Msg{Subject: subject, Data: body.Bytes(), Header: nats.Header{}})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(m.Data, out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", subject, err)
	}
	return nil
}

// Send asks a verb whose question or answer is a letter as it is stored. The header
// gets the operator's name.
func (c *Client) Send(ctx context.Context, verb string, h nats.Header, body []byte) (*nats.Msg, error) {
	return c.send(ctx, &nats.Msg{Subject: c.Subjects.Control(verb), Data: body, Header: h})
}

func (c *Client) send(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	m.Header[HeaderBy] = []string{c.By}
	if c.Role != "" {
		m.Header[HeaderRole] = []string{string(c.Role)}
	}
	a, err := c.NATS.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrNoDispatcher
	case err != nil:
		return nil, fmt.Errorf("ask %s: %w", m.Subject, err)
	}
	if code := a.Header.Get(schemas.HeaderServiceErrorCode); code != "" {
		f := &Failure{}
		if json.Unmarshal(a.Data, &f.Problem) != nil || f.What == "" {
			f.What = a.Header.Get(schemas.HeaderServiceError)
		}
		f.Code, _ = strconv.Atoi(code)
		return nil, f
	}
	return a, nil
}
