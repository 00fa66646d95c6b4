package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tollgate/client"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

// deployConfig is the worked example of the retrying tool decorator, as far as it
// is numbers.
const deployConfig = `
policies:
  charge:
    attempts: 4
    timeout: 3s
    backoff: { base: 200ms, cap: 2s, throttle_base: 200ms }
    max_retry_after: 8s
    max_deadline: 8s
    run: { attempts: 20, side_effects: 20, elapsed: 10m, max_repairs: 1, max_accounts: 4 }
dependencies:
  payments: { quota: { ratio: 0.1, burst: 20 }, breaker: off }
tools:
  payments.charge:
    http: { url: %s }
    effect: write
    retry_safety: idempotency_key
    key_retention: 24h
    not_executed_on: [503]
    dependency: payments
    concurrency: 64
    policies: [charge]
`

// payments is an API behind a unique constraint that answers 503 while it is deployed.
type payments struct {
	*bank
	mu        sync.Mutex // guards what follows
	deploying bool
	requests  map[string]int
	charges   map[string]int
}

func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	key := schemas.Header(r.Header).Get(schemas.HeaderKey)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[key]++
	if p.deploying {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	row, repeated := p.charge("http", key)
	if !repeated {
		p.charges[key]++
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(row)
}

// total is how many requests there were. The caller holds mu.
func (p *payments) total() (n int) {
	for _, of := range p.requests {
		n += of
	}
	return n
}

const agents = 200

// DESIGN 13, deploy: 200 agents charge while the payment API answers 503 for 30 s.
//
// Asserted: all of them have their answer before the 30 s are over, which is all of
// the outage they can see (8 s at most, so the test does not sit out the rest); the
// API gets at most 220 requests, 180 calls or more make one attempt and are told
// unavailable, uncharged, and the rest is what the quota's 20 tokens bought; every
// request is an attempt on record. After the deploy every agent asks again with the
// same key, the few that had used all attempts are replayed by an operator, and in
// the end each key is charged once.
func TestContractWorkedExampleADeployOfThePaymentAPI(t *testing.T) {
	p := &payments{bank: newBank(t), deploying: true, requests: map[string]int{}, charges: map[string]int{}}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	w := realWorld(t, fmt.Sprintf(deployConfig, web.URL+"/charge"), nil, io.Discard)

	began := time.Now()
	first := w.wave(t)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the first wave took %v: the deploy was over", took)
	}
	p.outage(t, first)

	p.mu.Lock()
	p.deploying = false
	p.mu.Unlock()
	for i, o := range w.wave(t) {
		if first[i].Status == schemas.Exhausted {
			o = w.replayed(first[i])
		}
		if o.Status != schemas.Succeeded || o.Generation != 1 || o.Call != first[i].Call {
			t.Errorf("agent %d: %s %s in generation %d", i, o.Status, o.Code(), o.Generation)
		}
	}
	p.charged(t, first)
	w.verify()
}

// wave lets every agent charge, as many at once as the machine can serve within the
// 8 s they have, and returns what each was told.
func (w *world) wave(t *testing.T) []*schemas.Outcome {
	t.Helper()
	out := make([]*schemas.Outcome, agents)
	var g errgroup.Group
	g.SetLimit(32)
	for i := range agents {
		g.Go(func() (err error) {
			out[i], err = w.charge(i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return out
}

// charge is one agent: a run of its own, and a key that is the same when it asks again.
func (w *world) charge(i int) (*schemas.Outcome, error) {
	agent, err := client.Connect(w.nc)
	if err != nil {
		return nil, err
	}
	run := fmt.Sprintf("agent-%d", i)
	o, err := agent.Call(context.Background(), "payments.charge", json.RawMessage(`{"amount": 100}`),
		client.Run(run), client.Key(client.StepKey(run, "charge")), client.Within(8*time.Second))
	var failed *client.OutcomeError
	if errors.As(err, &failed) {
		err = nil // the outcome says it
	}
	return o, err
}

// outage checks the first wave.
func (p *payments) outage(t *testing.T, first []*schemas.Outcome) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	once, recorded := 0, 0
	for i, o := range first {
		recorded += len(o.Attempts)
		switch {
		case o.Status == schemas.Unavailable && o.Code() == schemas.CodeQuotaEmpty && o.NextAction == schemas.Return:
			if len(o.Attempts) == 1 {
				once++
			}
		case o.Status == schemas.Exhausted && len(o.Attempts) > 1: // one that had a token
		default:
			t.Errorf("agent %d: %s %s after %d attempts", i, o.Status, o.Code(), len(o.Attempts))
		}
		if o.Budget.SideEffects.Used != 0 || p.requests[o.Call] != len(o.Attempts) || o.Timing.Settled.After(o.Timing.Deadline) {
			t.Errorf("agent %d: %d requests, %d attempts, budget %+v, timing %+v", i, p.requests[o.Call], len(o.Attempts), o.Budget, o.Timing)
		}
	}
	if total := p.total(); total > agents+20 || total != recorded || once < agents-20 {
		t.Errorf("%d requests, %d attempts recorded, %d calls with one attempt", total, recorded, once)
	}
	if len(p.charges) != 0 {
		t.Errorf("charged during the deploy: %v", p.charges)
	}
}

// replayed is what becomes of a call that had used all its attempts.
func (w *world) replayed(o *schemas.Outcome) *schemas.Outcome {
	w.t.Helper()
	id := o.Call + ".0"
	ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: id, ReplayOptions: deadletter.ReplayOptions{By: "test", Why: "the deploy is over"}})
	return w.outcome(msg{tool: "payments.charge", run: o.Run, key: o.Key}, 20*time.Second, 1)
}

// charged checks the end: one row and one charge a key, and nothing else.
func (p *payments) charged(t *testing.T, first []*schemas.Outcome) {
	t.Helper()
	rows := p.rows(t, "http")
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range first {
		if !rows[o.Call] || p.charges[o.Call] != 1 {
			t.Errorf("agent %d: row %v, charges %d", i, rows[o.Call], p.charges[o.Call])
		}
	}
	if len(rows) != agents || len(p.charges) != agents {
		t.Errorf("%d rows, %d keys charged, want %d", len(rows), len(p.charges), agents)
	}
}
