package e2e

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// What the scenarios look at from outside, and how they bring about a fault.

// again stops the dispatcher, changes the world and starts it.
func (w *world) again(change func()) {
	w.t.Helper()
	w.stop()
	change()
	w.start()
}

// cut makes the dispatcher's connection break at the n-th write that matches.
func (w *world) cut(prefix string, n int, kind natstest.Cut) *natstest.CutOn {
	w.t.Helper()
	c := &natstest.CutOn{Provider: w.node, Match: natstest.Publishes(prefix), N: n, Kind: kind}
	w.again(func() { w.provider = c })
	return c
}

// count counts the dispatcher's writes that contain what is looked for.
func (w *world) count(what string) *natstest.CutOn {
	w.t.Helper()
	c := &natstest.CutOn{Provider: w.node, N: 1 << 40, Match: func(b []byte) bool { return bytes.Contains(b, []byte(what)) }}
	w.again(func() { w.provider = c })
	return c
}

// crashAt waits for the fault and takes the process away at that instant.
func (w *world) crashAt(c *natstest.CutOn, within time.Duration) {
	w.t.Helper()
	w.until(within, "the fault", c.Fired)
	w.crash()
	w.provider = nil
}

func (w *world) until(within time.Duration, what string, ok func() bool) {
	w.t.Helper()
	start := time.Now()
	for end := start.Add(within); !ok(); time.Sleep(min(time.Second, 10*time.Millisecond+time.Since(start)/20)) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within %s", what, within)
		}
	}
}

// messages is how many messages a stream holds, in all or below a subject.
func (w *world) messages(stream string, subject ...string) int {
	w.t.Helper()
	st, err := w.js.Stream(context.Background(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(subject) == 0 {
		return int(st.CachedInfo().State.Msgs)
	}
	info, err := st.Info(context.Background(), jetstream.WithSubjectFilter(subject[0]))
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, of := range info.State.Subjects {
		n += int(of)
	}
	return n
}

// inside is how many messages are on their way in or waiting for an attempt.
func (w *world) inside() int {
	w.t.Helper()
	return w.messages("TOLLGATE_CALLS") + w.messages("TOLLGATE_JOBS") + w.messages("TOLLGATE_RETRY")
}

// drained waits until no stream holds work any more: every delivery is settled.
func (w *world) drained(within time.Duration) {
	w.t.Helper()
	w.until(within, "settling of every delivery", func() bool { return w.inside() == 0 })
}

func (w *world) consumer(stream, name string) *jetstream.ConsumerInfo {
	w.t.Helper()
	c, err := w.js.Consumer(context.Background(), stream, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.CachedInfo()
}

func (w *world) letters(f deadletter.Filter) deadletter.Page {
	w.t.Helper()
	return ask[deadletter.Page](w, control.VerbLetterList, f)
}

func (w *world) letter(id string) schemas.Letter {
	w.t.Helper()
	return ask[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: id})
}

func (w *world) replay(id string, o deadletter.ReplayOptions) {
	w.t.Helper()
	ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: id, ReplayOptions: o})
}

// refused asks for what must not be done and returns why it was not.
func (w *world) refused(verb string, q any) control.Problem {
	w.t.Helper()
	var f *control.Failure
	if err := w.ctl.Ask(context.Background(), verb, q, &control.Done{}); !errors.As(err, &f) {
		w.t.Fatalf("%s was not refused: %v", verb, err)
	}
	return f.Problem
}

// charged fails unless the account was charged just that.
func (w *world) charged(path string, attempts, effects int) {
	w.t.Helper()
	if a, e := w.account(path); a != attempts || e != effects {
		w.t.Errorf("run %s is charged %d attempts and %d side effects, want %d and %d", path, a, e, attempts, effects)
	}
}

// of is how often the tool saw a call.
func (s *seen) of(m msg) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Call == callID(m) {
			n++
		}
	}
	return n
}

// script is a tool whose n-th execution of a call ends with the n-th step, nil being
// success; the last step is repeated.
func (s *seen) script(steps ...error) function.Func {
	return func(_ context.Context, in dispatcher.Invocation) (any, error) {
		s.add(in)
		n := 0
		s.mu.Lock()
		for _, c := range s.calls {
			if c.Call == in.Call {
				n++
			}
		}
		s.mu.Unlock()
		if err := steps[min(n, len(steps))-1]; err != nil {
			return nil, err
		}
		return "ok", nil
	}
}

func busy(after time.Duration) error { return function.Transient("BUSY", "busy", after) }

func broken() error { return function.Stop(schemas.DownstreamRejected, "BROKEN", "broken") }

// bubble runs a scenario in a world whose tools section is given.
func bubble(t *testing.T, tools string, fns map[string]function.Func, f func(*testing.T, *world)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T) { f(t, newWorld(t, tools, fns)) })
}
