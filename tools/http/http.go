// Package http runs tools that are HTTP services: one request per attempt, to a
// URL that only the catalogue sets.
//
// Nothing here repeats a request, and nothing below it may. Go's transport sends
// a request again by itself when a kept-alive connection turns out dead and the
// request looks repeatable, which an Idempotency-Key makes even a POST; see
// [Executor.request] for how that is switched off. HTTP/2 is off for the same
// reason: its client repeats refused streams.
package http

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	nethttp "net/http"
	"net/url"
	"time"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// DefaultMaxResult leaves room for the outcome around a result in a NATS message
// of 1 MiB.
const DefaultMaxResult = 768 << 10

var _ dispatcher.Executor = (*Executor)(nil)

// Executor calls one HTTP tool.
type Executor struct {
	spec      Spec
	url       *url.URL
	transport *nethttp.Transport
	secrets   []string
}

// New checks the spec and makes its executor. Nothing is dialled yet.
func New(s Spec) (*Executor, error) {
	u, err := s.check()
	if err != nil {
		return nil, err
	}
	s = s.withDefaults()
	return &Executor{spec: s, url: u, transport: newTransport(s), secrets: secrets(s, u)}, nil
}

// Close drops the idle connections.
func (e *Executor) Close() { e.transport.CloseIdleConnections() }

// Execute sends the request once and reads the whole answer.
func (e *Executor) Execute(ctx context.Context, in dispatcher.Invocation) classify.Verdict {
	target, err := e.target(in.Arguments)
	if err != nil {
		v := classify.Refused(classify.NotSent, schemas.CodeInvalidArguments, err.Error())
		v.For = classify.ForRepair
		return v
	}
	var sent meter
	resp, err := e.send(sent.watch(ctx), target, in)
	for hops := 0; err == nil && e.follows(resp); hops++ {
		next, ok := redirectTarget(resp, target)
		if !ok || hops == maxHops {
			break
		}
		resp.Body.Close()
		target = next
		resp, err = e.send(sent.watch(ctx), target, in)
	}
	if err != nil {
		return e.broken(ctx, err, sent.wrote())
	}
	defer resp.Body.Close()
	return e.judge(ctx, resp)
}

func (e *Executor) send(ctx context.Context, target *url.URL, in dispatcher.Invocation) (*nethttp.Response, error) {
	return e.transport.RoundTrip(e.request(ctx, target, in))
}

// broken judges a request that got no answer. The context is asked first: when it
// has ended, whatever else went wrong went wrong because of it.
func (e *Executor) broken(ctx context.Context, err error, wrote bool) classify.Verdict {
	var denied *deniedError
	switch {
	case errors.As(err, &denied):
		return classify.Refused(classify.NotSent, CodeAddressDenied, denied.Error())
	case ctx.Err() != nil && wrote:
		return classify.Ended(ctx.Err(), context.Cause(ctx), classify.NoAnswer)
	case ctx.Err() != nil:
		return classify.Ended(ctx.Err(), context.Cause(ctx), classify.NotSent)
	}
	return classify.Network(err, wrote)
}

// judge reads the answer. One that breaks off is no answer, whatever its status
// said: what came of it is not known to be all of it.
func (e *Executor) judge(ctx context.Context, resp *nethttp.Response) classify.Verdict {
	if resp.StatusCode < 200 { // a switch of protocols, whose body has no end
		return classify.HTTP(resp.StatusCode, "", nil, e.spec.Rules, time.Now())
	}
	success := resp.StatusCode < 300
	body, err := io.ReadAll(io.LimitReader(resp.Body, e.spec.MaxResult+1))
	if err != nil {
		return e.broken(ctx, err, true)
	}
	switch tooLarge := int64(len(body)) > e.spec.MaxResult; {
	case tooLarge && success:
		return classify.TooLarge(classify.Oversize{Limit: e.spec.MaxResult, Size: int64(len(body)), Sum: sha256.Sum256(body)})
	case tooLarge:
		body = nil // the status alone decides
	case success && brokenJSON(resp.Header.Get("Content-Type"), body):
		return classify.Refused(classify.Answered, schemas.CodeInvalidResult, "the tool announced JSON and sent something else")
	case !success:
		body = redact(body, e.secrets)
	}
	v := classify.HTTP(resp.StatusCode, resp.Header.Get("Retry-After"), body, e.spec.Rules, time.Now())
	v.ToolRepeated = v.OK() && (resp.Header.Get("Idempotent-Replayed") == "true" || resp.Header.Get("Idempotency-Replayed") == "true")
	return v
}

// brokenJSON catches an answer that was cut short in a way HTTP itself cannot
// see, such as a Content-Length that is too small.
func brokenJSON(contentType string, body []byte) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json" && len(body) > 0 && !json.Valid(body)
}

// unexpected wraps a problem of the spec with the tool writer's next step.
func unexpected(field, problem, try string) error {
	return fmt.Errorf("http tool: %s %s: %s", field, problem, try)
}
