package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// headerBy names who cancelled, for the audit.
const headerBy = "Tollgate-By"

// Cancelled is what a cancellation met.
type Cancelled struct {
	Cancelled int `json:"cancelled"` // waiting calls, settled now
	Running   int `json:"running"`   // attempts that were told to stop; what they did is kept
	Unknown   int `json:"unknown"`   // no such run or call; a run is remembered as cancelled
}

// Cancel stops a run path with everything below it. It returns after the commit: no
// attempt of it starts any more. The audit names the connection.
func (c *Client) Cancel(ctx context.Context, run, reason string, opts ...Option) (Cancelled, error) {
	if !schemas.ValidRun(run) {
		return Cancelled{}, fmt.Errorf("%w: run %q is not legal", ErrMalformed, run)
	}
	return c.cancel(ctx, map[string]string{"run": run, "reason": reason}, opts)
}

// CancelCall stops one call, named by the ID that its [Submission] and [Outcome] have.
func (c *Client) CancelCall(ctx context.Context, call, reason string, opts ...Option) (Cancelled, error) {
	if !dedupe.ValidCallID(call) {
		return Cancelled{}, fmt.Errorf("%w: %q is not a call ID", ErrMalformed, call)
	}
	return c.cancel(ctx, map[string]string{"call": call, "reason": reason}, opts)
}

func (c *Client) cancel(ctx context.Context, target map[string]string, opts []Option) (Cancelled, error) {
	s := c.settings(opts)
	subjects, err := schemas.NewSubjects(s.prefix)
	if err != nil {
		return Cancelled{}, err
	}
	if !schemas.ValidTenant(s.tenant) {
		return Cancelled{}, fmt.Errorf("%w: tenant %q is not legal", ErrMalformed, s.tenant)
	}
	body, err := json.Marshal(target)
	if err != nil {
		return Cancelled{}, err
	}
	by := c.nc.Opts.Name
	if by == "" {
		by = "agent"
	}
	m, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subjects.Cancel(s.tenant), Data: body, Header: nats.Header{headerBy: {by}}})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return Cancelled{}, ErrNoDispatcher
	case err != nil:
		return Cancelled{}, fmt.Errorf("cancel: %w (cancelling again is harmless)", err)
	case m.Header.Get(schemas.HeaderServiceErrorCode) != "":
		return Cancelled{}, fmt.Errorf("cancel: %s", m.Header.Get(schemas.HeaderServiceError))
	}
	var rep Cancelled
	if err := json.Unmarshal(m.Data, &rep); err != nil {
		return Cancelled{}, fmt.Errorf("read the answer to cancel: %w", err)
	}
	return rep, nil
}
