package badinput

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"strings"
	"testing"

	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/tools/function"
)

// badFunctions are tools in the dispatcher's own process.
func badFunctions(t *testing.T, b *table) {
	cases := []struct {
		name string
		f    func(ctx context.Context) (any, error)
		want string
	}{
		{"a panic", func(context.Context) (any, error) { panic("no") }, "outcome unknown_outcome: PANIC"},
		{"a panic with nil", func(context.Context) (any, error) { panic(nil) }, "outcome unknown_outcome: PANIC"},
		{"a write to a nil map", func(context.Context) (any, error) {
			var m map[string]int
			maps.Copy(m, map[string]int{"x": 1})
			return m, nil
		}, "outcome unknown_outcome: PANIC"},
		{"the end of its goroutine", func(context.Context) (any, error) { runtime.Goexit(); return nil, nil }, "outcome unknown_outcome"},
		{"nil", func(context.Context) (any, error) { return nil, nil }, "outcome succeeded"},
		{"a channel", func(context.Context) (any, error) { return make(chan int), nil }, "outcome failed: INVALID_RESULT"},
		{"NaN", func(context.Context) (any, error) { return math.NaN(), nil }, "outcome failed: INVALID_RESULT"},
		{"bytes that are not text", func(context.Context) (any, error) { return []byte("\xff\x00\xfe"), nil }, "outcome succeeded"},
		{"2 MiB", func(context.Context) (any, error) { return strings.Repeat("x", 2<<20), nil }, "outcome failed: RESULT_TOO_LARGE"},
		{"an error nobody knows", func(context.Context) (any, error) { return nil, errors.New("\xff odd") }, "outcome failed: UNCLASSIFIED"},
		{"a typed nil error", func(context.Context) (any, error) { var e *function.Error; return nil, e }, "outcome"},
		{"no return before its time is up", func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, "outcome unknown_outcome: TIMEOUT"},
	}
	var s worldtest.Seen
	p := newPlace(t, "  odd: { function: odd, effect: write, concurrency: 2, policies: [quick] }\n", map[string]function.Func{
		"odd": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			for _, c := range cases {
				if strings.HasSuffix(in.Key, dashed(c.name)) || string(in.Arguments) == `{"case":"`+dashed(c.name)+`"}` {
					return c.f(ctx)
				}
			}
			return nil, errors.New("no such case")
		}})
	for _, c := range cases {
		m := worldtest.Msg{Tool: "odd", Run: "odd", Key: dashed(c.name), Body: `{"case":"` + dashed(c.name) + `"}`}
		o := p.Do(m)
		if s.Of(m) != 1 {
			t.Errorf("%s: ran %d times", c.name, s.Of(m))
		}
		b.expect(t, "function", c.name, ended(o), c.want)
		p.serves(c.name)
	}
	p.sound()
}

func dashed(s string) string { return strings.ReplaceAll(s, " ", "-") }
