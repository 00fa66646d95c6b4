package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// step is what a tool does at one execution of a call.
type step struct {
	work   time.Duration // how long it takes
	answer any           // nil: "ok"
	err    error
	silent bool // it never answers
}

// Steps. A busy tool states its wait.
var (
	fine   = step{}
	broken = step{err: worldtest.Broken()}
	silent = step{silent: true}
)

func busy(d time.Duration) step { return step{err: worldtest.Busy(d)} }

// seen is one execution.
type seen struct {
	in dispatcher.Invocation
	at time.Time
}

// stage is what the tools of a story do and what they see. Executions are counted
// by tool and call: the n-th one plays the n-th step, the last step is repeated.
type stage struct {
	f        *fault
	steps    map[string][]step // by tool
	replayed bool              // the n-th generation plays the n-th step

	mu     sync.Mutex // guards what follows
	all    []seen
	notBy  map[string]time.Time // by tool, call and generation: when a busy tool may be asked again
	broken []string             // promises that an execution broke
}

func newStage(s *story, f *fault) *stage {
	return &stage{f: f, replayed: s.replayed, steps: s.tools, notBy: map[string]time.Time{}}
}

// play is the function of every tool.
func (s *stage) play(ctx context.Context, in dispatcher.Invocation) (any, error) {
	st := s.enter(in)
	if st.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-time.After(st.work):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if st.err != nil {
		s.leave(in, st.err)
		return nil, st.err
	}
	if st.answer != nil {
		return st.answer, nil
	}
	return "ok", nil
}

func name(in dispatcher.Invocation) string { return in.Tool + " " + in.Call }

// enter notes an execution and holds it against what can be known at its start.
func (s *stage) enter(in dispatcher.Invocation) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.Arguments = append([]byte(nil), in.Arguments...)
	now, n := time.Now(), 0
	for _, e := range s.all {
		if name(e.in) != name(in) {
			continue
		}
		n++
		if e.in.Key != in.Key || string(e.in.Arguments) != string(in.Arguments) {
			s.breaks("I7: %s was asked with another key or other bytes", name(in))
		}
		if in.Tool == "pay.never" && e.in.Generation == in.Generation {
			s.breaks("I2: %s was asked twice in generation %d", name(in), in.Generation)
		}
	}
	if by := s.notBy[name(in)+strconv.Itoa(in.Generation)]; now.Before(by) && !(s.f.fired() && disturbs(s.f.op, s.f.kind)) { // the wait may have been lost with the answer
		s.breaks("I6: %s was asked %s too early", name(in), by.Sub(now))
	}
	s.all = append(s.all, seen{in, now})
	steps := s.steps[in.Tool]
	if s.replayed {
		n = in.Generation
	}
	if len(steps) == 0 {
		s.breaks("%s was asked in a story without it", in.Tool)
		return fine
	}
	return steps[min(n, len(steps)-1)]
}

// leave notes the wait that a busy tool states.
func (s *stage) leave(in dispatcher.Invocation, err error) {
	var f *function.Error
	if !errors.As(err, &f) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notBy[name(in)+strconv.Itoa(in.Generation)] = time.Now().Add(f.RetryAfter)
}

func (s *stage) breaks(format string, args ...any) {
	s.broken = append(s.broken, fmt.Sprintf(format, args...))
}

// of counts the executions of a call by a tool, in all generations.
func (s *stage) of(tool, call string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.in.Tool == tool && e.in.Call == call {
			n++
		}
	}
	return n
}

// starts are when a call was executed.
func (s *stage) starts(call string) (at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.in.Call == call {
			at = append(at, e.at)
		}
	}
	return at
}

// count is every execution.
func (s *stage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// heard are the outcomes that whoever listens was given.
type heard struct {
	mu  sync.Mutex // guards ids
	ids map[string]map[string]schemas.Status
}

// listen subscribes as an agent does.
func listen(t *testing.T, w *worldtest.World) *heard {
	h := &heard{ids: map[string]map[string]schemas.Status{}}
	_, err := w.NC.Subscribe("tollgate.results.>", func(m *nats.Msg) {
		o, err := decode(m.Data)
		if err != nil || o.Status == schemas.Rejected {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		of := fmt.Sprintf("%s.%d", o.Call, o.Generation)
		if h.ids[of] == nil {
			h.ids[of] = map[string]schemas.Status{}
		}
		h.ids[of][o.ID] = o.Status
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func decode(b []byte) (*schemas.Outcome, error) {
	var o schemas.Outcome
	err := json.Unmarshal(b, &o)
	if err == nil && o.Status == "" {
		err = errors.New("no outcome")
	}
	return &o, err
}
