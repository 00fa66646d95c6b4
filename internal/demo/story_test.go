package demo

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// `make demo` ends green, in time, and says where everything went.
func TestStoryEndsGreen(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	began := time.Now()
	if err := Story(ctx, &out, t.TempDir()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, want := range []string{"KEY_CONFLICT", "unknown_outcome", "RUN_BUDGET_EXHAUSTED", "the stored outcome, given again", "no payment twice", "all invariants hold"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the story does not say %q:\n%s", want, out.String())
		}
	}
	t.Log(out.String())
}

// The story is a test of its own: it must not be told when a tool cannot be reached.
func TestStoryFailsWhenItGoesOtherwise(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := Story(ctx, &out, t.TempDir()); err == nil {
		t.Errorf("told without a world:\n%s", out.String())
	}
}
