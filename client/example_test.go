package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"tollgate/client"
	"tollgate/client/tollgatetest"
	"tollgate/dispatcher"
)

// example is as much of a test as a Tollgate in an Example needs: Go gives examples
// no [testing.T].
type example struct {
	testing.TB
	cleanups []func()
}

func (e *example) Helper()                   {}
func (e *example) Cleanup(f func())          { e.cleanups = append(e.cleanups, f) }
func (e *example) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (e *example) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (e *example) TempDir() string {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	e.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (e *example) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}

// A job that somebody else, or this process after a crash, waits for.
func ExampleClient_Submit() {
	t := new(example)
	defer t.end()
	s := tollgatetest.New(t, tollgatetest.Tool{Name: "report", Read: true, Func: func(context.Context, dispatcher.Invocation) (any, error) {
		return "12 pages", nil
	}})
	c := s.Client(client.Run("nightly"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	sub, err := c.Submit(ctx, "report", nil, client.Job(), client.Key("nightly:2026-11-30"), client.Within(20*time.Second))
	if err != nil {
		panic(err)
	}
	o, err := c.Result(ctx, sub)
	fmt.Println(o.Status, o.Content[0].Text, err)

	elsewhere := &client.Submission{Tenant: "default", Run: "nightly", Tool: "report", Key: "nightly:2026-11-30"}
	o, err = c.Result(ctx, elsewhere)
	fmt.Println(o.Status, err)
	// Output:
	// succeeded 12 pages <nil>
	// succeeded <nil>
}

// A run that has spent what it may is over: for every key, tool and child agent.
func ExampleClient_Forget() {
	t := new(example)
	defer t.end()
	s := tollgatetest.New(t, tollgatetest.Tool{Name: "look", Read: true, Func: func(context.Context, dispatcher.Invocation) (any, error) {
		return "seen", nil
	}})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := s.Client(client.Run("run_1"))

	for step := range 3 { // the limit is the run's from the first call on that names it
		_, err := c.Call(ctx, "look", nil, client.RunAttempts(1), client.Key(fmt.Sprint("run_1:", step)))
		fmt.Println(errors.Is(err, client.ErrRunBudgetExhausted))
	}
	s.Grant("run_1", 1, 0) // an operator does this
	c.Forget("run_1")
	_, err := c.Call(ctx, "look", nil, client.Key("run_1:3"))
	fmt.Println(err)
	// Output:
	// false
	// true
	// true
	// <nil>
}
