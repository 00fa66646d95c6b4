package tollgatetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tollgate/client"
	"tollgate/client/tollgatetest"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/tools/function"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A tool that recovers after a long stated wait takes no time in a bubble, and the same
// key reaches it on every attempt.
func TestARetryInVirtualTime(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		var keys []string
		s := tollgatetest.New(t, tollgatetest.Tool{
			Name: "pay", Safety: dedupe.IdempotencyKey, MaxDeadline: time.Hour,
			Func: func(_ context.Context, in dispatcher.Invocation) (any, error) {
				if keys = append(keys, in.Key); len(keys) < 3 {
					return nil, function.Transient("BUSY", "", 5*time.Second)
				}
				return "paid", nil
			},
		})
		start := time.Now()
		o, err := s.Client(client.Run("r")).Call(t.Context(), "pay", nil)
		if err != nil || o.Budget.SideEffects.Used != 3 || fmt.Sprint(keys) != fmt.Sprint([]string{keys[0], keys[0], keys[0]}) {
			t.Errorf("%+v, %v, keys %v", o, err, keys)
		}
		if d := time.Since(start); d < 10*time.Second || d > 13*time.Second {
			t.Errorf("took %v", d)
		}
		if l := s.Letters(); len(l) != 0 {
			t.Errorf("letters %+v", l)
		}
	})
}

// In real time, without a bubble, several at once: each has its own server and ledger.
func TestServersAreAlone(t *testing.T) {
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var ran atomic.Int64
			s := tollgatetest.New(t, tollgatetest.Tool{Name: "pay", Func: func(context.Context, dispatcher.Invocation) (any, error) {
				return ran.Add(1), nil
			}})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for range 2 {
				if o, err := s.Client(client.Run("r")).Call(ctx, "pay", nil, client.Key("k")); err != nil || o.Content[0].Text != "1" {
					t.Errorf("%+v, %v", o, err)
				}
			}
		})
	}
}

// A write that nothing is said about is never repeated.
func TestTheZeroToolIsCareful(t *testing.T) {
	tollgatetest.Bubble(t, func(t *testing.T) {
		ran := 0
		s := tollgatetest.New(t, tollgatetest.Tool{Name: "pay", Func: func(context.Context, dispatcher.Invocation) (any, error) {
			ran++
			return nil, function.Transient("BUSY", "", 0)
		}})
		_, err := s.Client(client.Run("r")).Call(t.Context(), "pay", nil)
		if l := s.Letters(); !errors.Is(err, client.ErrFailed) || ran != 1 || len(l) != 1 || l[0].Reason != "failed" {
			t.Errorf("%v, ran %d times, letters %+v", err, ran, l)
		}
	})
}

// What is wrong with the tools is said, and the test ends.
func TestBadTools(t *testing.T) {
	f := func(context.Context, dispatcher.Invocation) (any, error) { return nil, nil }
	for want, tools := range map[string][]tollgatetest.Tool{
		"two tools named a": {{Name: "a", Func: f}, {Name: "a", Func: f}},
		"not a tool's name": {{Name: "a b", Func: f}},
		"there is no func":  {{Name: "a"}},
		"retry_safety":      {{Name: "a", Func: f, Read: true, Safety: dedupe.Idempotent}},
	} {
		r := &recorder{TB: t}
		func() {
			defer func() { _ = recover() }()
			tollgatetest.New(r, tools...)
		}()
		if !strings.Contains(r.said, want) {
			t.Errorf("%s: %q", want, r.said)
		}
	}
}

// recorder is a test that is stopped by Fatalf, as a panic.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Fatalf(f string, a ...any) {
	r.said = fmt.Sprintf(f, a...)
	panic(r.said)
}
