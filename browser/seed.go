package browser

import (
	"errors"
	"fmt"
	"sync"
)

// outcomes is the exit code from which on a command of the program tells of an outcome,
// and not that it could not do its work.
const outcomes = 9

// call is one call to be made.
type call struct{ tool, args, run, key string }

// seeds are calls of every kind of end, with text that would like to be more than text.
func seeds() []call {
	calls := []call{
		{"demo.echo", `{"text":"hello"}`, "research/reader", "k1"},
		{"demo.echo", `{"text":"<script>alert(1)</script> \u202egpj.exe"}`, "research/reader", "k2"},
		{"demo.pay", `{"to":"ACME","amount_cents":1250}`, "research", "k3"},
		{"demo.flaky", `{"mode":"flaky","fails":2}`, "research/writer", "k4"},
		{"demo.pay", `{"to":"ACME","amount_cents":700,"mode":"lost"}`, "research", "k5"},
		{"demo.wire", `{"to":"<b>Bert</b>","amount_cents":500000,"mode":"lost"}`, "transfers", "k1"},
		{"demo.pay", `{"to":"","amount_cents":-1}`, "transfers", "k2"},
	}
	for i := range 4 {
		calls = append(calls, call{"demo.flaky", `{"mode":"down"}`, fmt.Sprintf("nightly-%d", i%2), fmt.Sprintf("night-%d", i)})
	}
	return append(calls, call{"demo.pay", `{"to":"Carla","amount_cents":9900,"mode":"down"}`, "nightly-0/payments", "night-pay"})
}

// Seed makes the calls, all at once, and what operators have done: a grant, a cancelled
// run, a pause, and a bulk replay that came too early.
func (h *House) Seed() error {
	if err := h.Calls(seeds()...); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"call", "demo.flaky", `{"mode":"down"}`, "--run", "small", "--key", "k1", "--run-attempts", "2"},
		{"call", "demo.echo", `{"text":"one too many"}`, "--run", "small", "--key", "k2"},
		{"runs", "grant", "research", "--attempts", "5", "--why", "INC-412: the <b>CRM</b> was down"},
		{"cancel", "--run", "abandoned", "--reason", "the user left"},
		{"tools", "pause", "demo.clock", "--why", "maintenance"},
		{"dlq", "replay", "--run", "nightly-1", "--name", "too-early", "--why", "is it back?", "--yes", "--detach"},
	} {
		if _, err := h.Run(args...); err != nil && !told(err) {
			return err
		}
	}
	return nil
}

// Calls makes calls at once and waits for their outcomes, whatever they are.
func (h *House) Calls(calls ...call) error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls {
		wg.Go(func() {
			if _, err := h.Run("call", c.tool, c.args, "--run", c.run, "--key", c.key); !told(err) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// told reports whether a command failed because of the outcome that it tells.
func told(err error) bool {
	var f *Failed
	return errors.As(err, &f) && f.Code >= outcomes
}
