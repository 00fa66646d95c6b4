package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Submission names a call that was sent, so that its outcome can be waited for, by
// another process and after a crash too: it is plain data, fit to be stored as JSON.
// One made by hand needs Tenant, Run, Tool and Key, or Tenant, Run and Call.
type Submission struct {
	Prefix      string       `json:"prefix,omitempty"`
	Lane        schemas.Lane `json:"lane,omitempty"`
	Tenant      string       `json:"tenant"`
	Run         string       `json:"run"`
	Tool        string       `json:"tool,omitempty"`
	Key         string       `json:"key,omitempty"`
	Call        string       `json:"call"`
	Fingerprint string       `json:"fingerprint,omitempty"` // of the arguments: an outcome of others is not ours
	Generation  int          `json:"generation,omitempty"`  // the least that answers, see [After]
	Deadline    time.Time    `json:"deadline,omitzero"`
	Started     time.Time    `json:"started,omitzero"`
	Stream      string       `json:"stream,omitempty"` // where it was stored, and as which message:
	Sequence    uint64       `json:"seq,omitempty"`    // a refusal of any other is not ours
}

// ackWithin bounds one publish. A server that is restarting answers none; the same
// message is then published again under the same message ID and stored once.
const ackWithin = 5 * time.Second

// Submit publishes a call, or with [Job] a background job, and returns once it is
// stored: it will reach one recorded outcome, whatever becomes of this process. A
// deadline is required, as an option or as the end of ctx. Without a [Key] it is
// [ArgsKey]. [Client.Result] waits for the outcome.
func (c *Client) Submit(ctx context.Context, tool string, args any, opts ...Option) (*Submission, error) {
	lane := schemas.Calls
	s := c.settings(opts)
	if s.job {
		lane = schemas.Jobs
	}
	if _, ends := ctx.Deadline(); !ends && s.deadline.IsZero() && s.within == 0 {
		return nil, fmt.Errorf("%w: a submitted call needs a deadline: add client.Within or client.Deadline", ErrMalformed)
	}
	q, err := c.request(ctx, lane, tool, args, opts)
	if err != nil {
		return nil, err
	}
	ack, err := c.publish(ctx, q.message)
	if err != nil {
		return nil, fmt.Errorf("submit %s: %w", tool, err)
	}
	q.Stream, q.Sequence = ack.Stream, ack.Sequence
	return &q.Submission, nil
}

// publish stores a message once, however often the answer is lost.
func (c *Client) publish(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	id := jetstream.WithMsgID(rand.Text()) // random: an ID made from the key would swallow other calls
	for {
		try, cancel := context.WithTimeout(ctx, ackWithin)
		ack, err := c.js.PublishMsg(try, m, id, jetstream.WithRetryAttempts(8))
		cancel()
		var refused *jetstream.APIError
		switch {
		case err == nil:
			return ack, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w before the server had confirmed it; submit it again with the same key", context.Cause(ctx))
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
			return nil, ErrNoDispatcher
		case errors.As(err, &refused):
			return nil, fmt.Errorf("the server did not take it, and it is not stored (a full stream means: slow down and submit it again): %w", err)
		case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout):
			return nil, err
		}
	}
}

// Result waits for the outcome of a call that was submitted or called, here or
// elsewhere. It hears it live and reads the stored one, again after every reconnect.
// Like [Client.Call] it returns an *[OutcomeError] beside an outcome that is no success.
func (c *Client) Result(ctx context.Context, s *Submission) (*Outcome, error) {
	wanted := *s
	if wanted.Prefix == "" {
		wanted.Prefix = c.defaults.prefix
	}
	if err := wanted.complete(); err != nil {
		return nil, err
	}
	return c.finish(c.await(ctx, wanted, nil))
}

// answers reports whether an outcome is the one of this submission. What other
// arguments came to under the same key is not shown: ours is refused a moment later.
func (s *Submission) answers(o *Outcome) bool {
	if s.Fingerprint != "" && o.Fingerprint != s.Fingerprint {
		return false
	}
	switch {
	case o.Status != schemas.Rejected:
	case s.Sequence > 0:
		return o.ID == s.refusalID(o)
	default:
		return s.Started.IsZero() // the endpoint's refusals are never published: it is another message's
	}
	return o.Generation >= s.Generation
}

// refusalID is the ID that a refusal of exactly this message has.
func (s *Submission) refusalID(o *Outcome) string {
	subjects, _ := schemas.NewSubjects(s.Prefix)
	return "refused." + dedupe.MessageID(o.Timing.Published.UTC().String(), s.Stream+subjects.Submit(s.Lane, s.Tenant, s.Tool), s.Sequence)
}

// resultsStream is the stream that keeps the outcomes below a prefix.
func resultsStream(s schemas.Subjects) string {
	return strings.ToUpper(strings.ReplaceAll(s.Prefix, ".", "_")) + "_RESULTS"
}
