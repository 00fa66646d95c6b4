package main

import (
	"fmt"
	"math/rand/v2"

	"tollgate/dedupe"
	"tollgate/internal/demo"
	"tollgate/schemas"
)

// The size of a run: so many calls, made in waves of siblings at once.
const (
	callsPerRun = 10
	wave        = 5
)

// step is one call of a run and the way it is made.
type step struct {
	lane      schemas.Lane
	tool, key string
	run       string // the path
	args      demo.Args
	budget    string // attempts that the run asks for; "": the policy's

	request bool // through the endpoint
	again   bool // once more with the same key, after its end
	cancel  bool // it is cancelled a moment after it was sent
}

func (s step) call() string { return dedupe.CallID("default", schemas.Root(s.run), s.tool, s.key) }
func (s step) write() bool  { return s.tool == "demo.pay" || s.tool == "demo.wire" }
func (s step) http() bool   { return s.write() || s.tool == "demo.flaky" }
func (s step) never() bool  { return s.tool == "demo.wire" }
func (s step) name() string {
	return s.tool + " " + s.args.Mode + " " + s.run + " " + s.key + " (" + s.call() + ")"
}
func slow(ms int) demo.Args { return demo.Args{Mode: demo.ModeSlow, WaitMS: ms} }
func fails(n int) demo.Args { return demo.Args{Mode: demo.ModeFlaky, Fails: n} }
func money(c int) demo.Args {
	return demo.Args{Mode: demo.ModeSlow, WaitMS: 10 + c%120, Cents: int64(c + 1), To: "ACME"}
}
func lost(c int) demo.Args                  { return demo.Args{Mode: demo.ModeLost, Cents: int64(c + 1), To: "ACME"} }
func down() demo.Args                       { return demo.Args{Mode: demo.ModeDown} }
func throttled() demo.Args                  { return demo.Args{Mode: demo.ModeThrottled} }
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// mix is what calls are made of, in hundredths.
var mix = []struct {
	share int
	make  func(c int) step
}{
	{26, func(c int) step { return step{tool: "demo.flaky", args: slow(20 + c%150)} }},
	{15, func(c int) step { return step{tool: "demo.pay", args: money(c)} }},
	{12, func(c int) step { return step{tool: "demo.wire", args: money(c)} }},
	{12, func(c int) step { return step{tool: "soak.echo", args: slow(c % 1000)} }},
	{6, func(int) step { return step{tool: "demo.clock"} }},
	{6, func(c int) step { return step{tool: "demo.flaky", args: fails(1 + c%2)} }},
	{5, func(c int) step { return step{tool: "demo.pay", args: lost(c)} }},
	{5, func(c int) step { return step{lane: schemas.Jobs, tool: "demo.pay", args: money(c)} }},
	{4, func(c int) step { return step{tool: "demo.wire", args: money(c), again: true} }},
	{4, func(c int) step { return step{tool: "demo.pay", args: money(c), request: true} }},
	{2, func(int) step { return step{tool: "demo.flaky", args: slow(600), cancel: true} }},
	{1, func(int) step { return step{tool: "demo.flaky", args: throttled()} }},
	{1, func(c int) step { return step{tool: "demo.wire", args: lost(c)} }},
	{1, func(int) step { return step{tool: "demo.flaky", args: down()} }},
}

// planned is the calls of the i-th run: the same for the same seed. One run in
// twenty asks for a budget that does not suffice.
func planned(seed uint64, i int) (steps []step) {
	rng := rand.New(rand.NewPCG(seed, uint64(i)))
	budget := ""
	if chance(rng, 5) {
		budget = "8"
	}
	for n := range callsPerRun {
		at, k := rng.IntN(100), 0
		for at >= mix[k].share {
			at -= mix[k].share
			k++
		}
		s := mix[k].make(rng.IntN(1 << 20))
		if s.lane == "" {
			s.lane = schemas.Calls
		}
		s.run, s.key, s.budget = fmt.Sprintf("soak-%d/agent", i), fmt.Sprintf("step-%d", n), budget
		steps = append(steps, s)
	}
	return steps
}
