package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/control"
)

func letterIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("letter%03d.0", i)
	}
	return ids
}

// refusal is the dispatcher's own no.
func refusal(id string) error {
	return &control.Failure{Problem: control.Problem{Code: 409, What: "dead letter " + id + ": it was replayed already; try: something else"}}
}

func TestBulkKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shell{stderr: &bytes.Buffer{}}
		b := newBulk(s, "replayed", 10)
		var mu sync.Mutex
		var at []time.Time
		b.run(t.Context(), letterIDs(21), func(string) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
			return nil
		})
		if took := at[len(at)-1].Sub(at[0]); took < 2*time.Second || took > 2100*time.Millisecond {
			t.Errorf("21 at 10/s took %s", took)
		}
		if !slices.Equal(b.done, letterIDs(21)) {
			t.Errorf("done: %v", b.done)
		}
	})
}

func TestBulkGoesOnAfterARefusalAndStopsWhenNobodyAnswers(t *testing.T) {
	s := &shell{stderr: &bytes.Buffer{}}
	b := newBulk(s, "replayed", 0)
	b.run(t.Context(), letterIDs(50), func(id string) error {
		if id == "letter007.0" {
			return refusal(id)
		}
		return nil
	})
	if len(b.done) != 49 || b.fatal != nil || reasonOf("letter007.0", b.failed["letter007.0"]) != "it was replayed already" {
		t.Errorf("done %d, failed %v, fatal %v", len(b.done), b.failed, b.fatal)
	}
	b = newBulk(s, "replayed", 0)
	b.run(t.Context(), letterIDs(1000), func(id string) error {
		if id >= "letter010.0" {
			return control.ErrNoDispatcher
		}
		return nil
	})
	if !errors.Is(b.fatal, control.ErrNoDispatcher) || len(b.done) != 10 || len(b.failed) != 0 {
		t.Errorf("done %d, failed %d, fatal %v", len(b.done), len(b.failed), b.fatal)
	}
}

func TestBulkStopsWhenInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &shell{stderr: &bytes.Buffer{}, started: true}
		b := newBulk(s, "replayed", 1)
		time.AfterFunc(2500*time.Millisecond, func() { cancel(errInterrupted) })
		b.run(ctx, letterIDs(100), func(string) error { return nil })
		if len(b.done) != 3 || !errors.Is(b.fatal, errInterrupted) {
			t.Errorf("done %d, fatal %v", len(b.done), b.fatal)
		}
		if f := s.explain(ctx, b.fatal); f.code != exitInterrupted {
			t.Errorf("exit code %d", f.code)
		}
	})
}

func TestProgressOffATerminalIsALineNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		newBulk(&shell{stderr: &out}, "replayed", 1).run(t.Context(), letterIDs(35), func(string) error { return nil })
		if lines := strings.Count(out.String(), "\n"); lines != 3 || !strings.Contains(out.String(), "/35 replayed, about ") {
			t.Errorf("35 s of work, a line every 10 s: %q", out.String())
		}
		out.Reset()
		newBulk(&shell{stderr: &out, errTTY: true}, "replayed", 10).run(t.Context(), letterIDs(20), func(string) error { return nil })
		if !strings.Contains(out.String(), "█") || !strings.HasSuffix(out.String(), "\r\x1b[K") {
			t.Errorf("a bar that is taken away at the end: %q", out.String())
		}
		out.Reset()
		newBulk(&shell{stderr: &out, quiet: true}, "replayed", 1).run(t.Context(), letterIDs(35), func(string) error { return nil })
		if out.Len() > 0 {
			t.Errorf("--quiet: %q", out.String())
		}
	})
}
