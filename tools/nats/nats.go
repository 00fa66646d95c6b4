// Package nats runs tools that are NATS services: one core request per attempt,
// one reply.
//
// The request goes out once. A connection that is down is not waited for: nats.go
// would keep the request in its reconnect buffer and send it when nobody waits any
// more, so give the tool's connection a ReconnectBufSize of -1 as well.
package nats

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// DefaultMaxResult leaves room for the outcome around a result in a NATS message
// of 1 MiB.
const DefaultMaxResult = 768 << 10

// Codes of requests that did not get to a service.
const (
	CodeNoResponders = "NO_RESPONDERS"
	CodeNotConnected = classify.CodeNotConnected
	CodeLost         = classify.CodeConnectionLost
)

// Spec is one NATS tool as the catalogue declares it.
type Spec struct {
	Conn      *nats.Conn
	Subject   string // of the service; not one that a stream captures, whose answer would be taken for the tool's
	Rules     classify.Rules
	MaxResult int64 // bytes; 0 is DefaultMaxResult
}

var _ dispatcher.Executor = (*Executor)(nil)

// Executor calls one NATS service.
type Executor struct{ spec Spec }

// New checks the spec and makes its executor. The connection stays the caller's.
func New(s Spec) (*Executor, error) {
	var problems []error
	if s.Conn == nil {
		problems = append(problems, errors.New("nats tool: there is no connection: set Conn"))
	}
	if !legal(s.Subject) {
		problems = append(problems, errors.New("nats tool: the subject cannot be published to: write tokens joined by dots, without wildcards or spaces"))
	}
	if s.MaxResult < 0 {
		problems = append(problems, errors.New("nats tool: max_result must not be negative: leave it out for the default"))
	}
	if err := s.Rules.Validate(); err != nil {
		problems = append(problems, err)
	}
	if s.MaxResult == 0 {
		s.MaxResult = DefaultMaxResult
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Executor{s}, nil
}

func legal(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if token == "" || strings.ContainsAny(token, " \t\r\n*>") {
			return false
		}
	}
	return true
}

// Execute sends the request once and waits for its reply.
func (e *Executor) Execute(ctx context.Context, in dispatcher.Invocation) classify.Verdict {
	switch {
	case ctx.Err() != nil:
		return classify.Ended(ctx.Err(), context.Cause(ctx), classify.NotSent)
	case !e.spec.Conn.IsConnected():
		return classify.Unsent(CodeNotConnected, "there is no connection to NATS; the request was not sent")
	}
	reply, err := e.spec.Conn.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: e.spec.Subject, Header: nats.Header(in.Header()), Data: in.Arguments,
	})
	if err != nil {
		return broken(ctx, err)
	}
	return e.judge(reply)
}

// broken judges a request without a reply. Only what nats.go reports before it has
// taken the message over is not_sent; a connection that closes may close afterwards.
func broken(ctx context.Context, err error) classify.Verdict {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return classify.Unsent(CodeNoResponders, "no service listens on the tool's subject")
	case errors.Is(err, nats.ErrMaxPayload):
		return classify.Refused(classify.NotSent, schemas.CodeTooLarge, "the arguments and headers are larger than the NATS server takes")
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrHeadersNotSupported):
		return classify.Unsent(CodeNotConnected, "the connection to NATS does not take messages; the request was not sent")
	case ctx.Err() != nil:
		return classify.Ended(ctx.Err(), context.Cause(ctx), classify.NoAnswer)
	}
	return classify.Lost(CodeLost, "the connection to NATS ended before the reply came")
}

func (e *Executor) judge(reply *nats.Msg) classify.Verdict {
	h := schemas.Header(reply.Header)
	code := h.Get(schemas.HeaderServiceErrorCode)
	if code == "" && h.Lookup(schemas.HeaderServiceError) != nil {
		code = "missing" // an error all the same, and on no list
	}
	body := reply.Data
	if size := int64(len(body)); size > e.spec.MaxResult {
		if code == "" {
			return classify.TooLarge(classify.Oversize{Limit: e.spec.MaxResult, Size: size, Whole: true, Sum: sha256.Sum256(body)})
		}
		body = nil // the code alone decides
	}
	v := classify.NATS(code, h.Get("Retry-After"), body, e.spec.Rules, time.Now())
	v.ToolRepeated = v.OK() && h.Get("Idempotent-Replayed") == "true"
	return v
}
