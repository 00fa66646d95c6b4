package consumer

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// delivery turns a received message into what the dispatcher takes. JetStream's
// own types end here.
func (c *Consumer) delivery(m *nats.Msg) dispatcher.Delivery {
	meta, err := m.Metadata()
	if err != nil { // not a JetStream message: it cannot be one of ours
		meta = &nats.MsgMetadata{}
	}
	return c.understand(schemas.Origin{Stream: meta.Stream, Subject: m.Subject, Sequence: meta.Sequence.Stream, Time: meta.Timestamp.UTC()},
		schemas.Header(m.Header), m.Data)
}

// stored turns a message read from a stream into a delivery.
func (c *Consumer) stored(stream string, m *jetstream.RawStreamMsg) dispatcher.Delivery {
	return c.understand(schemas.Origin{Stream: stream, Subject: m.Subject, Sequence: m.Sequence, Time: m.Time.UTC()}, schemas.Header(m.Header), m.Data)
}

func (c *Consumer) understand(o schemas.Origin, h schemas.Header, body []byte) dispatcher.Delivery {
	d := dispatcher.Delivery{Header: h, Body: body, Origin: o, Retry: o.Stream == c.names.Retry}
	var malformed *schemas.Malformed
	var err error
	d.Lane, d.Tenant, d.Tool, err = c.cfg.Subjects.ParseSubmit(o.Subject)
	if errors.As(err, &malformed) {
		d.Invalid = malformed
	}
	if d.Retry {
		d.Token, _ = strconv.ParseUint(h.Get(schemas.HeaderToken), 10, 64)
	}
	return d
}

// Fetch reads the request of a call from the message it came in.
func (c *Consumer) Fetch(ctx context.Context, o schemas.Origin) (schemas.Request, error) {
	if o.Stream == "" {
		return schemas.Request{}, dedupe.ErrNotFound
	}
	st, err := c.js.Stream(ctx, o.Stream)
	if err != nil {
		return schemas.Request{}, err
	}
	m, err := st.GetMsg(ctx, o.Sequence)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return schemas.Request{}, dedupe.ErrNotFound
	case err != nil:
		return schemas.Request{}, err
	}
	d := c.stored(o.Stream, m)
	q, err := schemas.ParseRequest(d.Lane, d.Tenant, d.Tool, d.Header, d.Body, schemas.Defaults{})
	if err != nil || m.Subject != o.Subject {
		return schemas.Request{}, dedupe.ErrNotFound // not the message it was
	}
	return q, nil
}

// longestNak bounds how long a message stays away; it may be handed back again.
const longestNak = time.Hour

// settle ends a delivery, exactly once, after its effects are durable. A lost
// acknowledgement costs a redelivery that finds the record ahead of it. It reports
// whether the delivery was acknowledged.
func (c *Consumer) settle(m *nats.Msg, s dispatcher.Settlement) bool {
	var err error
	switch {
	case s.Ack:
		err = m.Ack()
	case s.Delay > 0:
		err = m.NakWithDelay(min(s.Delay, longestNak))
	default:
		err = m.Nak()
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		c.cfg.Log.Warn().Err(err).Str("subject", m.Subject).Msg("the delivery could not be settled; it comes again")
	}
	return s.Ack && err == nil
}
