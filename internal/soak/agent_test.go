package soak

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/internal/demo"
	"tollgate/schemas"
)

// callsPerRun is how many calls an agent makes in one run.
const callsPerRun = 10

// plan is the i-th call of all: its tool and how the tool behaves.
type plan struct {
	lane           schemas.Lane
	tool, run, key string
	args           demo.Args
	budget         string // of the run; "": the policy's
}

func planned(i int) plan {
	run := i / callsPerRun
	p := plan{lane: schemas.Calls, run: fmt.Sprintf("soak-%d/agent", run), key: fmt.Sprintf("step-%d", i%callsPerRun)}
	if run%5 == 4 {
		p.budget = "8" // not enough for all calls of the run
	}
	money := demo.Args{Cents: int64(i + 1), To: "ACME", WaitMS: 20 + i%7*30}
	switch i % callsPerRun {
	case 0:
		p.tool, p.args = "demo.flaky", demo.Args{Mode: demo.ModeSlow, WaitMS: 150}
	case 1:
		p.tool, p.args = "demo.wire", money
		p.args.Mode = demo.ModeSlow
	case 2:
		p.tool, p.args = "demo.flaky", demo.Args{Mode: demo.ModeFlaky, Fails: 2}
	case 3:
		p.tool, p.args = "demo.pay", money
		p.args.Mode = demo.ModeSlow
	case 4:
		p.tool, p.args = "demo.pay", money
		p.args.Mode = demo.ModeLost
	case 5:
		p.tool, p.args = "demo.wire", money
	case 6:
		p.tool, p.args = "demo.wire", money
		p.args.Mode = demo.ModeLost
	case 7:
		p.tool = "demo.clock"
	case 8:
		p.lane, p.tool, p.args = schemas.Jobs, "demo.pay", money
		p.args.Mode = demo.ModeFlaky
	default:
		p.tool, p.args = "demo.flaky", demo.Args{Mode: demo.ModeDown}
	}
	return p
}

func (p plan) call() string { return dedupe.CallID("default", schemas.Root(p.run), p.tool, p.key) }

// agents make all calls, run by run, through a connection that comes and goes.
type agents struct {
	nc *nats.Conn
	js jetstream.JetStream

	mu       sync.Mutex                  // guards below
	seen     map[string]map[string]bool  // outcome IDs by call, as they went by
	outcomes map[string]*schemas.Outcome // the stored ones
}

func newAgents(url string) (*agents, error) {
	a := &agents{seen: map[string]map[string]bool{}, outcomes: map[string]*schemas.Outcome{}}
	var err error
	if a.nc, err = nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})); err != nil {
		return nil, err
	}
	if a.js, err = jetstream.New(a.nc); err != nil {
		return nil, err
	}
	_, err = a.nc.Subscribe("tollgate.results.>", func(m *nats.Msg) {
		var o schemas.Outcome
		if json.Unmarshal(m.Data, &o) == nil && o.Status != schemas.Rejected {
			a.note(&o)
		}
	})
	return a, err
}

func (a *agents) note(o *schemas.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen[o.Call] == nil {
		a.seen[o.Call] = map[string]bool{}
	}
	a.seen[o.Call][o.ID] = true
}

// work makes n calls with so many agents at once.
func (a *agents) work(ctx context.Context, n, atOnce int) error {
	runs := make(chan int)
	var wg sync.WaitGroup
	errs := make(chan error, atOnce)
	for range atOnce {
		wg.Go(func() {
			for run := range runs {
				for i := run * callsPerRun; i < min(n, (run+1)*callsPerRun); i++ {
					if err := a.make(ctx, planned(i)); err != nil {
						errs <- err
						return
					}
				}
			}
		})
	}
	var failed error
	for run := 0; run*callsPerRun < n && failed == nil; run++ {
		select {
		case runs <- run:
		case failed = <-errs:
		}
	}
	close(runs)
	wg.Wait()
	select {
	case failed = <-errs:
	default:
	}
	return failed
}

// make publishes one call until the server has it, and waits for its outcome.
func (a *agents) make(ctx context.Context, p plan) error {
	body, err := json.Marshal(p.args)
	if err != nil {
		return err
	}
	m := nats.NewMsg("tollgate." + string(p.lane) + ".default." + p.tool)
	m.Data = body
	m.Header.Set(schemas.HeaderRun, p.run)
	m.Header.Set(schemas.HeaderKey, p.key)
	m.Header.Set(schemas.HeaderDeadline, time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339Nano))
	m.Header.Set(schemas.HeaderMessageID, rand.Text())
	if p.budget != "" {
		m.Header.Set(schemas.HeaderRunAttempts, p.budget)
	}
	err = insist(ctx, func(ctx context.Context) error {
		_, err := a.js.PublishMsg(ctx, m)
		return err
	})
	if err != nil {
		return fmt.Errorf("publish %s of %s: %w", p.key, p.run, err)
	}
	err = insist(ctx, func(ctx context.Context) error { return a.read(ctx, p) })
	if err != nil {
		return fmt.Errorf("outcome of %s of %s (%s): %w", p.key, p.run, p.call(), err)
	}
	return nil
}

func (a *agents) read(ctx context.Context, p plan) error {
	results, err := a.js.Stream(ctx, "TOLLGATE_RESULTS")
	if err != nil {
		return err
	}
	m, err := results.GetLastMsgForSubject(ctx, "tollgate.results.default."+schemas.Root(p.run)+"."+p.call())
	if err != nil {
		return err
	}
	var o schemas.Outcome
	if err := json.Unmarshal(m.Data, &o); err != nil {
		return err
	}
	a.note(&o)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcomes[o.Call] = &o
	return nil
}

// insist tries until it works: the program may be dead just now.
func insist(ctx context.Context, f func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		err := f(try)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(30 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
