package function_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
	"tollgate/tools/function"
)

func call(t *testing.T, ctx context.Context, s function.Spec) classify.Verdict {
	t.Helper()
	e, err := function.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return e.Execute(ctx, dispatcher.Invocation{Key: "k1", Arguments: []byte(`{"b": 1}`)})
}

func returns(value any, err error) function.Spec {
	return function.Spec{Func: func(context.Context, dispatcher.Invocation) (any, error) { return value, err }}
}

func short(v classify.Verdict) string {
	if v.OK() {
		return "ok " + v.Phase.String()
	}
	s := v.Class.String() + " " + v.Phase.String() + " " + v.Code
	if v.StopReason != "" {
		s += " " + string(v.StopReason)
	}
	if v.For == classify.ForModel {
		s += " model"
	}
	return s
}

func TestResults(t *testing.T) {
	type row struct {
		N int `json:"n"`
	}
	for name, tt := range map[string]struct {
		value            any
		text, structured string
	}{
		"struct":   {row{7}, `{"n":7}`, `{"n":7}`},
		"raw JSON": {json.RawMessage(`{"n": 7.0}`), `{"n": 7.0}`, `{"n": 7.0}`},
		"text":     {"hello", "hello", ""},
		"bytes":    {[]byte("hello"), "hello", ""},
		"nothing":  {nil, "", ""},
	} {
		v := call(t, t.Context(), returns(tt.value, nil))
		text := ""
		if len(v.Content) > 0 {
			text = v.Content[0].Text
		}
		if !v.OK() || text != tt.text || string(v.Structured) != tt.structured {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := call(t, t.Context(), returns(make(chan int), nil)); short(v) != "permanent answered INVALID_RESULT" {
		t.Errorf("not JSON: %s", short(v))
	}
	big := returns(bytes.Repeat([]byte("x"), 1001), nil)
	big.MaxResult = 1000
	if v := call(t, t.Context(), big); short(v) != "permanent answered RESULT_TOO_LARGE" || !strings.Contains(v.Message, "1001 bytes") {
		t.Errorf("oversize: %s %q", short(v), v.Message)
	}
}

// DESIGN 13: transient, permanent and stop come across; what is not declared stops (I8).
func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{function.Transient("POOL_FULL", "no connection", 1200*time.Millisecond), "transient answered POOL_FULL"},
		{fmt.Errorf("wrapped: %w", function.Transient("POOL_FULL", "", 1200*time.Millisecond)), "transient answered POOL_FULL"},
		{function.Permanent("NO_ROW", "no such row"), "permanent answered NO_ROW model"},
		{function.Stop(schemas.AuthExpired, "LOGIN", "token expired"), "permanent answered LOGIN AUTH_EXPIRED"},
		{&function.Error{ToolErrorBody: schemas.ToolErrorBody{Code: "X", Retryable: true, StopReason: schemas.QuotaExhausted}}, "permanent answered X QUOTA_EXHAUSTED"},
		{function.Stop("BORED", "X", ""), "unclassified answered UNCLASSIFIED"},
		{function.Transient("", "", 0), "unclassified answered UNCLASSIFIED"},
		{errors.New("password s3cr3t refused"), "unclassified answered UNCLASSIFIED"},
		{context.DeadlineExceeded, "unclassified answered UNCLASSIFIED"}, // of some inner context: ours has not ended
	} {
		v := call(t, t.Context(), returns(nil, tt.err))
		if short(v) != tt.want || strings.Contains(v.Message, "s3cr3t") || v.Message == "" {
			t.Errorf("%v: %s %q, want %s", tt.err, short(v), v.Message, tt.want)
		}
		if v.Class == classify.Transient && v.RetryAfter != 1200*time.Millisecond {
			t.Errorf("%v: stated wait %v", tt.err, v.RetryAfter)
		}
	}
	closed := returns(nil, function.Transient("OTHER", "", 0))
	closed.Codes = []string{"POOL_FULL"}
	if v := call(t, t.Context(), closed); short(v) != "unclassified answered UNCLASSIFIED" {
		t.Errorf("undeclared code: %s", short(v))
	}
	cause := errors.New("cause")
	if err := error(&function.Error{Message: "m", Err: cause}); !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
}

func TestCutOff(t *testing.T) {
	waits := function.Spec{Func: func(ctx context.Context, _ dispatcher.Invocation) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("own cause"))
	defer cancel()
	if v := call(t, ctx, waits); short(v) != "transient no_answer TIMEOUT" {
		t.Errorf("timeout: %s", short(v))
	}
	stopped, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { stop(errors.New("shutting down")) })
	if v := call(t, stopped, waits); short(v) != "transient no_answer INTERRUPTED" || !strings.Contains(v.Message, "shutting down") {
		t.Errorf("stopped: %s %q", short(v), v.Message)
	}
	ran := false
	v := call(t, stopped, function.Spec{Func: func(context.Context, dispatcher.Invocation) (any, error) { ran = true; return nil, nil }})
	if ran || short(v) != "transient not_sent INTERRUPTED" {
		t.Errorf("ended before: ran %v, %s", ran, short(v))
	}
	late, cancelLate := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelLate()
	v = call(t, late, function.Spec{Func: func(ctx context.Context, _ dispatcher.Invocation) (any, error) { <-ctx.Done(); return "done", nil }})
	if !v.OK() {
		t.Errorf("a late result is a result: %s", short(v))
	}
}

// B70: the dispatcher catches panics; the executor lets them through, with their stack.
func TestPanicsPass(t *testing.T) {
	defer func() {
		if recover() != "boom" {
			t.Error("the panic did not come through")
		}
	}()
	call(t, t.Context(), function.Spec{Func: func(context.Context, dispatcher.Invocation) (any, error) { panic("boom") }})
}

func TestSpecIsChecked(t *testing.T) {
	for _, s := range []function.Spec{{}, {Func: returns(nil, nil).Func, MaxResult: -1}} {
		if _, err := function.New(s); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
}

func ExampleNew() {
	e, err := function.New(function.Spec{Func: func(_ context.Context, in dispatcher.Invocation) (any, error) {
		var args struct{ Name string }
		if err := json.Unmarshal(in.Arguments, &args); err != nil {
			return nil, function.Permanent("BAD_NAME", "name must be a string")
		}
		return "hello " + args.Name, nil
	}})
	if err != nil {
		panic(err)
	}
	v := e.Execute(context.Background(), dispatcher.Invocation{Arguments: []byte(`{"name":"Ada"}`)})
	fmt.Println(v.OK(), v.Content[0].Text)
	// Output: true hello Ada
}
