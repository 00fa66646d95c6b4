package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tollgate/client"
	"tollgate/client/tollgatetest"
	"tollgate/dispatcher"
	"tollgate/schemas"
	"tollgate/tools/function"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers with its arguments and counts.
type echo struct{ ran atomic.Int64 }

func (e *echo) tool(name string) tollgatetest.Tool {
	return tollgatetest.Tool{Name: name, Read: true, Func: func(_ context.Context, in dispatcher.Invocation) (any, error) {
		e.ran.Add(1)
		return json.RawMessage(in.Arguments), nil
	}}
}

// failing is a tool that always fails the same way.
func failing(name string, err error) tollgatetest.Tool {
	return tollgatetest.Tool{Name: name, Read: true, Func: func(context.Context, dispatcher.Invocation) (any, error) { return nil, err }}
}

func TestCallGivesTheToolItsBytesAndOneOutcome(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		var e echo
		s := tollgatetest.New(t, e.tool("demo.echo"))
		c := s.Client(client.Run("run_1"))
		raw := json.RawMessage(`{ "b": 1,   "a": 9007199254740993 }`)
		o, err := c.Call(t.Context(), "demo.echo", raw, client.Key(client.StepKey("run_1", "1")), client.ToolCallID("toolu_1"))
		if err != nil || o.Content[0].Text != string(raw) || o.Key != "run_1:1" || o.ToolCallID != "toolu_1" {
			t.Fatalf("%+v, %v", o, err)
		}
		again, err := c.Call(t.Context(), "demo.echo", raw, client.Key("run_1:1"))
		if err != nil || !again.Repeated || again.ID != o.ID || e.ran.Load() != 1 {
			t.Errorf("same key: %+v, %v, the tool ran %d times", again, err, e.ran.Load())
		}
		if _, err := c.Call(t.Context(), "demo.echo", map[string]int{"b": 2}, client.Key("run_1:1")); !errors.Is(err, client.ErrKeyConflict) {
			t.Errorf("same key, other arguments: %v", err)
		}
		for _, args := range []any{nil, struct{}{}, []byte(`{}`)} {
			if o, err := c.Call(t.Context(), "demo.echo", args); err != nil || o.Key != client.ArgsKey("demo.echo", "run_1", args) {
				t.Errorf("%T: %+v, %v", args, o, err)
			}
		}
		if e.ran.Load() != 2 {
			t.Errorf("three calls without a key and with equal arguments ran %d times beside the first", e.ran.Load()-1)
		}
	})
}

// The key of a call that names none is the endpoint's own.
func TestArgsKeyIsTheEndpoints(t *testing.T) {
	for _, args := range []string{`{"b":1,"a":"\u00e4"}`, `{}`, `[1]`, `{"a":1,"a":2}`} {
		if got, want := client.ArgsKey("crm.find", "r/c", []byte(args)), dispatcher.DerivedKey("crm.find", "r/c", []byte(args)); got != want {
			t.Errorf("%s: %q, the endpoint says %q", args, got, want)
		}
	}
	if client.ArgsKey("t", "r", make(chan int)) != client.ArgsKey("t", "r", []byte("{")) {
		t.Error("arguments that are not JSON have a key of their own")
	}
}

// Every way a call can end is an error that errors.Is knows, with its outcome.
func TestOutcomesAreErrorsOfTheirKind(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lost := tollgatetest.Tool{Name: "pay", Func: func(ctx context.Context, _ dispatcher.Invocation) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		strict := failing("strict", nil)
		strict.Schema = `{"type":"object","required":["name"]}`
		s := tollgatetest.New(t, lost, strict,
			failing("busy", function.Transient("BUSY", "", 0)),
			failing("closed", function.Transient("CLOSED", "", 10*time.Second)),
			failing("model", function.Permanent("NO_ROW", "no such row")),
			failing("login", function.Stop(schemas.AuthExpired, "LOGIN", "")))
		for tool, want := range map[string]error{
			"pay": client.ErrUnknownOutcome, "strict": client.ErrRepair, "busy": client.ErrCallExhausted, "closed": client.ErrUnavailable,
			"model": client.ErrToolError, "login": client.ErrFailed, "missing": client.ErrUnknownTool,
		} {
			o, err := s.Client().Call(ctx, tool, nil, client.Run("r-"+tool))
			var failed *client.OutcomeError
			if !errors.Is(err, want) || !errors.As(err, &failed) || failed.Outcome != o || o == nil || err.Error() == "" {
				t.Errorf("%s: %v (outcome %+v), want %v", tool, err, o, want)
			}
		}
		if _, err := s.Client().Call(ctx, "model", nil, client.Run("r"), client.Within(10*time.Millisecond)); !errors.Is(err, client.ErrDeadline) {
			t.Errorf("a deadline that leaves no time: %v", err)
		}
		if _, err := s.Client(client.Tenant("other")).Call(ctx, "model", nil, client.Run("r")); !errors.Is(err, client.ErrDenied) {
			t.Errorf("another tenant: %v", err)
		}
		if _, err := s.Client(client.Prefix("elsewhere")).Call(ctx, "model", nil, client.Run("r")); !errors.Is(err, client.ErrNoDispatcher) {
			t.Errorf("nobody there: %v", err)
		}
		letters := map[string]string{}
		for _, l := range s.Letters() {
			letters[l.Tool] = l.Reason
		}
		if got := fmt.Sprint(letters); got != "map[busy:exhausted_attempts login:failed model:exhausted_elapsed_time pay:unknown_outcome]" {
			t.Errorf("letters %s", got)
		}
	})
}

// What breaks the contract is refused before anything is sent.
func TestMalformedCallsAreNotSent(t *testing.T) {
	var e echo
	s := tollgatetest.New(t, e.tool("demo.echo"))
	c := s.Client(client.Run("r"))
	before := s.Conn().Stats().OutMsgs
	for name, call := range map[string]func() error{
		"no run":         func() error { _, err := s.Client().Call(t.Context(), "demo.echo", nil); return err },
		"run":            func() error { _, err := c.Call(t.Context(), "demo.echo", nil, client.Run("a.b")); return err },
		"tool":           func() error { _, err := c.Call(t.Context(), "demo.*", nil); return err },
		"tenant":         func() error { _, err := c.Call(t.Context(), "demo.echo", nil, client.Tenant("A")); return err },
		"key":            func() error { _, err := c.Call(t.Context(), "demo.echo", nil, client.Key("a b")); return err },
		"no object":      func() error { _, err := c.Call(t.Context(), "demo.echo", "text"); return err },
		"duplicate key":  func() error { _, err := c.Call(t.Context(), "demo.echo", []byte(`{"a":1,"a":1}`)); return err },
		"not JSON":       func() error { _, err := c.Call(t.Context(), "demo.echo", func() {}); return err },
		"no deadline":    func() error { _, err := c.Submit(t.Context(), "demo.echo", nil); return err },
		"negative limit": func() error { _, err := c.Call(t.Context(), "demo.echo", nil, client.RunAttempts(-1)); return err },
		"cancel":         func() error { _, err := c.Cancel(t.Context(), "a.b", ""); return err },
		"cancel a call":  func() error { _, err := c.CancelCall(t.Context(), "run_1", ""); return err },
	} {
		if err := call(); !errors.Is(err, client.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Call(t.Context(), "demo.echo", map[string]string{"a": string(make([]byte, 1<<20))}); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if _, err := c.Result(t.Context(), &client.Submission{Run: "r"}); err == nil {
		t.Error("a submission that names no call was waited for")
	}
	if sent := s.Conn().Stats().OutMsgs - before; sent != 0 {
		t.Errorf("%d messages were sent", sent)
	}
	if _, err := client.Connect(nil); err == nil {
		t.Error("no connection was accepted")
	}
}

// The end of ctx ends the waiting, not the call.
func TestACallOutlivesItsCaller(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		slow := tollgatetest.Tool{Name: "slow", Timeout: 10 * time.Second, Func: func(context.Context, dispatcher.Invocation) (any, error) {
			time.Sleep(5 * time.Second)
			return "done", nil
		}}
		s := tollgatetest.New(t, slow)
		c := s.Client(client.Run("r"), client.Within(25*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err := c.Call(ctx, "slow", nil)
		var pending *client.NoAnswerError
		if o != nil || !errors.As(err, &pending) || !errors.Is(err, client.ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%+v, %v", o, err)
		}
		o, err = c.Result(t.Context(), &pending.Submission)
		if err != nil || o.Content[0].Text != "done" || o.Budget.Attempts.Used != 1 {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// One operation that an agent has to wait for.
func ExampleClient_Call() {
	t := new(example)
	defer t.end()
	s := tollgatetest.New(t, tollgatetest.Tool{Name: "greet", Read: true, Func: func(_ context.Context, in dispatcher.Invocation) (any, error) {
		var who struct{ Name string }
		if err := json.Unmarshal(in.Arguments, &who); err != nil {
			return nil, function.Permanent("BAD_NAME", "name must be a string")
		}
		return "hello " + who.Name, nil
	}})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.Connect(s.Conn()) // yours is from nats.Connect
	if err != nil {
		panic(err)
	}
	for range 2 { // the second time is what an agent does after a crash
		o, err := c.Call(ctx, "greet", map[string]string{"name": "Ada"}, client.Run("run_42"), client.Key(client.StepKey("run_42", "7")))
		fmt.Println(o.Content[0].Text, o.Repeated, err)
	}
	_, err = c.Call(ctx, "greet", map[string]int{"name": 7}, client.Run("run_42"), client.Key(client.StepKey("run_42", "8")))
	fmt.Println(errors.Is(err, client.ErrToolError), err)
	// Output:
	// hello Ada false <nil>
	// hello Ada true <nil>
	// true tool_error BAD_NAME: name must be a string
}
