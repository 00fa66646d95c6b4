package worldtest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// Seen records what a tool saw.
type Seen struct {
	Mu    sync.Mutex
	Calls []dispatcher.Invocation
	At    []time.Time
}

// Add notes an execution and returns how many there were.
func (s *Seen) Add(in dispatcher.Invocation) int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	in.Arguments = bytes.Clone(in.Arguments)
	s.Calls = append(s.Calls, in)
	s.At = append(s.At, time.Now())
	return len(s.Calls)
}

// N is how many executions there were.
func (s *Seen) N() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Calls)
}

// Forget starts the count again.
func (s *Seen) Forget() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Calls, s.At = nil, nil
}

// Of is how often the tool saw a call.
func (s *Seen) Of(m Msg) (n int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, c := range s.Calls {
		if c.Call == CallID(m) {
			n++
		}
	}
	return n
}

// Script is a tool whose n-th execution of a call ends with the n-th step, nil being
// success; the last step is repeated.
func (s *Seen) Script(steps ...error) function.Func {
	return func(_ context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		n := 0
		s.Mu.Lock()
		for _, c := range s.Calls {
			if c.Call == in.Call {
				n++
			}
		}
		s.Mu.Unlock()
		if err := steps[min(n, len(steps))-1]; err != nil {
			return nil, err
		}
		return "ok", nil
	}
}

// Busy is a failure that may clear.
func Busy(after time.Duration) error { return function.Transient("BUSY", "busy", after) }

// Broken is a failure that will not.
func Broken() error { return function.Stop(schemas.DownstreamRejected, "BROKEN", "broken") }

// Bubble runs a scenario in a world whose tools section is given.
func Bubble(t *testing.T, tools string, fns map[string]function.Func, f func(*testing.T, *World)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T) { f(t, New(t, tools, fns)) })
}
