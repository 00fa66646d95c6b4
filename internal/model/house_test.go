package model

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const catalogue = `  look.up: { function: tool, effect: read, ROW }
  pay.keyed: { function: tool, effect: write, retry_safety: idempotency_key, key_retention: 24h, ROW }
  pay.never: { function: tool, effect: write, ROW }
dependencies: { it: { breaker: off, quota: { ratio: 1, burst: 1000000 } } }
`

const row = `dependency: it, concurrency: 64, policies: { calls: [quick], jobs: [quick] }, schema: { type: object, properties: { bad: false } }`

const policy = `
policies:
  quick:
    attempts: 3
    timeout: 3s
    backoff: { base: 200ms, cap: 2s, throttle_base: 1s }
    max_retry_after: 10s
    max_deadline: 1m
    run: { attempts: 14, side_effects: 8, elapsed: 4m, max_repairs: 2, max_accounts: 16 }
`

// event is something the tools saw, in order.
type event struct {
	starts  bool
	in      dispatcher.Invocation
	step    step // of an end
	at      time.Time
	process int // that ran it
}

// house is a world in which one sequence after the other takes place.
type house struct {
	*worldtest.World
	fuse    *fuse
	process int
	audits  uint64 // sequence of the last audit entry that was read

	mu      sync.Mutex // guards what follows
	scripts map[string][]step
	times   map[string]int
	events  []event
	heard   []*schemas.Outcome // on the results subjects
}

func newHouse(t *testing.T) *house {
	h := &house{scripts: map[string][]step{}, times: map[string]int{}}
	h.World = worldtest.New(t, strings.ReplaceAll(catalogue, "ROW", row), map[string]function.Func{"tool": h.tool})
	h.Stop()
	before, after, _ := strings.Cut(h.Config, "\npolicies:")
	_, after, _ = strings.Cut(after, "\ntools:")
	h.Config = before + policy + "\ntools:" + after
	// A crash here takes the process and not the machine, so nothing has to reach the
	// disk, and thousands of sequences need not wait for it.
	h.Config = worldtest.ReplaceOnce(t, h.Config, "ledger: {", "ledger: { sync: 1h,")
	h.start()
	_, err := h.NC.Subscribe("tollgate.results.>", func(m *nats.Msg) {
		o := &schemas.Outcome{}
		if json.Unmarshal(m.Data, o) == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.heard = append(h.heard, o)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// start starts a process with a fuse of its own.
func (h *house) start() {
	h.fuse = &fuse{provider: h.Node}
	h.Provider = h.fuse
	h.Start()
}

// kill takes the process away as it is now, and starts another after a while.
func (h *house) kill(down time.Duration) {
	old := h.App
	h.Crash()
	go func() { // its goroutines end; what they still do is done to nobody
		old.Stop()
		_ = old.Wait()
	}()
	time.Sleep(down)
	h.mu.Lock()
	h.process++
	h.mu.Unlock()
	h.start()
}

// tool plays the call's script; after the script it succeeds.
func (h *house) tool(ctx context.Context, in dispatcher.Invocation) (any, error) {
	h.mu.Lock()
	n := h.times[in.Call]
	h.times[in.Call]++
	does, process := succeeds, h.process
	if script := h.scripts[in.Call]; n < len(script) {
		does = script[n]
	}
	in.Arguments = bytes.Clone(in.Arguments)
	h.events = append(h.events, event{starts: true, in: in, at: time.Now(), process: process})
	h.mu.Unlock()
	if does == silent {
		<-ctx.Done()
	}
	h.mu.Lock()
	h.events = append(h.events, event{in: in, step: does, at: time.Now(), process: process})
	h.mu.Unlock()
	switch does {
	case busy:
		return nil, function.Transient("BUSY", "busy", 0)
	case waits, waitsLong:
		return nil, function.Transient("BUSY", "busy", does.stated())
	case refuses:
		return nil, function.Permanent("NO_ROW", "no such row")
	case stops:
		e := function.Stop(schemas.DownstreamRejected, "BROKEN", "broken")
		e.Retryable = true
		return nil, e
	case strange:
		return nil, context.DeadlineExceeded // of some inner context
	case silent:
		return nil, ctx.Err()
	case panics:
		panic("the tool's own")
	}
	return "done", nil
}

// script says what the tool will do with a call.
func (h *house) script(call string, steps []step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scripts[call] = steps
}

// new returns what the tools saw since the last time.
func (h *house) new() (events []event, process int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events, h.events = h.events, nil
	return events, h.process
}

// told is every outcome that was published since the last time.
func (h *house) told() (all []*schemas.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, h.heard = h.heard, nil
	return all
}

// still lets everything happen that happens now.
func still() {
	synctest.Wait()
	time.Sleep(30 * time.Millisecond)
	synctest.Wait()
}
