// Package function runs tools that are Go functions in the dispatcher's own
// process: for services that embed Tollgate, for examples and for tests.
//
// Panics are not caught here: the dispatcher catches those of every executor. A
// goroutine that the function starts is the function's own to guard.
package function

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// DefaultMaxResult leaves room for the outcome around a result in a NATS message
// of 1 MiB.
const DefaultMaxResult = 768 << 10

// Func is a tool. It returns soon after ctx ends. The value becomes the result: a
// string or []byte as it is, nil as an empty result, anything else as JSON. An
// [*Error] says how the call failed; any other error is on no list, and a stop.
type Func func(ctx context.Context, in dispatcher.Invocation) (any, error)

// Spec is one function tool.
type Spec struct {
	Func      Func
	Codes     []string // the closed set of its error codes; empty accepts any
	MaxResult int64    // bytes; 0 is DefaultMaxResult
}

var _ dispatcher.Executor = (*Executor)(nil)

// Executor calls one function.
type Executor struct{ spec Spec }

// New checks the spec and makes its executor.
func New(s Spec) (*Executor, error) {
	if s.Func == nil {
		return nil, errors.New("function tool: there is no function: set Func")
	}
	if s.MaxResult < 0 {
		return nil, errors.New("function tool: max_result must not be negative: leave it out for the default")
	}
	if s.MaxResult == 0 {
		s.MaxResult = DefaultMaxResult
	}
	return &Executor{s}, nil
}

// Execute calls the function once. A function that returns a value has answered,
// also when its time was up by then; one that returns an ordinary error after that
// was cut off, and nobody knows what it did.
func (e *Executor) Execute(ctx context.Context, in dispatcher.Invocation) classify.Verdict {
	if ctx.Err() != nil {
		return classify.Ended(ctx.Err(), context.Cause(ctx), classify.NotSent)
	}
	value, err := e.spec.Func(ctx, in)
	var own *Error
	switch {
	case err == nil:
		return e.result(value)
	case errors.As(err, &own):
		return e.failed(own)
	case ctx.Err() != nil:
		return classify.Ended(ctx.Err(), context.Cause(ctx), classify.NoAnswer)
	}
	return classify.Unknown(classify.Answered, schemas.CodeUnclassified,
		"the function failed with an error of a kind that is not declared; return a function.Error to say whether it may clear")
}

func (e *Executor) result(value any) classify.Verdict {
	body, err := encode(value)
	if err != nil {
		return classify.Refused(classify.Answered, schemas.CodeInvalidResult, fmt.Sprintf("the function's result of type %T is not JSON", value))
	}
	if size := int64(len(body)); size > e.spec.MaxResult {
		return classify.TooLarge(classify.Oversize{Limit: e.spec.MaxResult, Size: size, Whole: true, Sum: sha256.Sum256(body)})
	}
	return classify.Result(body)
}

func encode(value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(v), nil
	case []byte:
		return v, nil
	case json.RawMessage:
		return v, nil
	}
	return json.Marshal(value)
}

func (e *Executor) failed(f *Error) classify.Verdict {
	if f.Code == "" || len(e.spec.Codes) > 0 && !slices.Contains(e.spec.Codes, f.Code) ||
		f.StopReason != "" && !slices.Contains(schemas.StopReasons, f.StopReason) {
		return classify.Unknown(classify.Answered, schemas.CodeUnclassified, "the function's error has a code or a stop reason that is not declared")
	}
	v := classify.Refused(classify.Answered, f.Code, f.Message)
	v.StopReason = f.StopReason
	if v.Message == "" {
		v.Message = "the function answered with its error " + f.Code
	}
	switch {
	case f.StopReason != "":
	case f.Retryable:
		v.Class, v.RetryAfter = classify.Transient, max(f.RetryAfter, 0)
	default:
		v.For, v.Content = classify.ForModel, []schemas.Content{{Type: "text", Text: v.Message}}
	}
	return v
}
