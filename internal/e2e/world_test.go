package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// world is a dispatcher with function tools on a server of its own.
type world struct {
	t    *testing.T
	dir  string
	node *natstest.Node
	conf string
	fns  map[string]function.Func
	app  *app.App
	nc   *nats.Conn
	js   jetstream.JetStream
	ctl  *control.Client
	log  io.Writer

	crashes  int
	ackWait  time.Duration // of the consumers; 0: the default
	recover  bool
	sweep    time.Duration              // between sweeps; 0: the default
	provider nats.InProcessConnProvider // of the dispatcher's connection; nil: node
}

const policies = `
policies:
  quick:
    attempts: 4
    timeout: 3s
    backoff: { base: 200ms, cap: 2s, throttle_base: 1s }
    max_retry_after: 10s
    max_deadline: 1m
    run: { attempts: 1000, side_effects: 1000, elapsed: 1h, max_repairs: 2, max_accounts: 16 }
  many:
    attempts: 40
    timeout: 3s
    backoff: { base: 200ms, cap: 2s, throttle_base: 1s }
    max_retry_after: 10s
    max_deadline: 2h
    run: { attempts: 1000, side_effects: 1000, elapsed: 12h, max_repairs: 2, max_accounts: 16 }
  slow:
    attempts: 4
    timeout: 3s
    backoff: { base: 1s, cap: 10s, throttle_base: 1s }
    max_retry_after: 1h
    max_deadline: 2h
    run: { attempts: 1000, side_effects: 1000, elapsed: 12h, max_repairs: 2, max_accounts: 16 }
  patient:
    attempts: 3
    timeout: 40s
    backoff: { base: 1s, cap: 10s, throttle_base: 1s }
    max_retry_after: 1h
    max_deadline: 2h
    run: { attempts: 5000, side_effects: 5000, elapsed: 12h, max_repairs: 2, max_accounts: 16 }
`

// newWorld starts a world whose tools section is given.
func newWorld(t *testing.T, tools string, fns map[string]function.Func) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), fns: fns, log: io.Discard}
	if os.Getenv("TOLLGATE_TEST_LOG") != "" {
		w.log = os.Stderr
	}
	w.conf = fmt.Sprintf("nats: { url: nats://127.0.0.1:1 }\nledger: { path: %q }\nlimits: { unserved_grace: 5s }\n%s\ntools:\n%s",
		filepath.Join(w.dir, "ledger.db"), policies, tools)
	w.node = natstest.Server(t, filepath.Join(w.dir, "nats"))
	w.nc = natstest.Connect(t, w.node)
	var err error
	if w.js, err = jetstream.New(w.nc); err != nil {
		t.Fatal(err)
	}
	subjects, _ := schemas.NewSubjects("")
	w.ctl = &control.Client{NATS: w.nc, Subjects: subjects, By: "test"}
	w.start()
	t.Cleanup(w.stop)
	return w
}

func (w *world) options() app.Options {
	w.t.Helper()
	c, err := config.Parse("test.yaml", []byte(w.conf), os.LookupEnv)
	if err != nil {
		w.t.Fatal(err)
	}
	return app.Options{Config: c, Functions: w.fns, Log: zerolog.New(w.log), Version: "test", FileID: "the one ledger", Sweep: w.sweep, AckWait: w.ackWait, Recover: w.recover,
		Conn: func() (*nats.Conn, error) {
			from := w.provider
			if from == nil {
				from = w.node
			}
			return nats.Connect("", nats.InProcessServer(from), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
		}}
}

func (w *world) start() {
	w.t.Helper()
	a, err := app.Start(context.Background(), w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	w.app = a
}

func (w *world) stop() {
	if w.app == nil {
		return
	}
	w.app.Stop()
	if err := w.app.Wait(); err != nil {
		w.t.Errorf("stop: %v", err)
	}
	w.app = nil
}

func replaceOnce(t *testing.T, s, old, with string) string {
	t.Helper()
	if strings.Count(s, old) != 1 {
		t.Fatalf("%q is not there exactly once", old)
	}
	return strings.Replace(s, old, with, 1)
}

// msg is a call ready to publish.
type msg struct {
	lane     schemas.Lane
	tool     string
	tenant   string
	run, key string
	body     string
	deadline time.Duration
	header   map[string]string
}

func (m msg) build() *nats.Msg {
	if m.lane == "" {
		m.lane = schemas.Calls
	}
	if m.tenant == "" {
		m.tenant = "default"
	}
	if m.deadline == 0 {
		m.deadline = 50 * time.Second
	}
	if m.body == "" {
		m.body = "{}"
	}
	n := nats.NewMsg("tollgate." + string(m.lane) + "." + m.tenant + "." + m.tool)
	n.Data = []byte(m.body)
	n.Header.Set(schemas.HeaderRun, m.run)
	n.Header.Set(schemas.HeaderKey, m.key)
	n.Header.Set(schemas.HeaderDeadline, time.Now().Add(m.deadline).UTC().Format(time.RFC3339Nano))
	for k, v := range m.header {
		n.Header.Set(k, v)
	}
	return n
}

func (w *world) publish(m msg) {
	w.t.Helper()
	if _, err := w.js.PublishMsg(context.Background(), m.build()); err != nil {
		w.t.Fatal(err)
	}
}

// outcome waits for the stored outcome of a call, of at least the given generation.
func (w *world) outcome(m msg, within time.Duration, generation ...int) *schemas.Outcome {
	w.t.Helper()
	least := 0
	if len(generation) > 0 {
		least = generation[0]
	}
	start := time.Now()
	for end := start.Add(within); ; time.Sleep(min(time.Second, 20*time.Millisecond+time.Since(start)/20)) {
		if o := w.stored(m); o != nil && o.Generation >= least {
			return o
		}
		if time.Now().After(end) {
			w.t.Fatalf("no outcome of %s/%s within %s", m.run, m.key, within)
		}
	}
}

func (w *world) stored(m msg) *schemas.Outcome {
	if m.tenant == "" {
		m.tenant = "default"
	}
	st, err := w.js.Stream(context.Background(), "TOLLGATE_RESULTS")
	if err != nil {
		return nil
	}
	id := callID(m)
	raw, err := st.GetLastMsgForSubject(context.Background(), "tollgate.results."+m.tenant+"."+schemas.Root(m.run)+"."+id)
	if err != nil {
		return nil
	}
	var o schemas.Outcome
	if err := json.Unmarshal(raw.Data, &o); err != nil {
		w.t.Fatal(err)
	}
	return &o
}

func (w *world) do(m msg) *schemas.Outcome {
	w.t.Helper()
	n := m.build()
	n.Subject = strings.Replace(n.Subject, ".calls.", ".do.", 1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r, err := w.nc.RequestMsgWithContext(ctx, n)
	if err != nil {
		w.t.Fatal(err)
	}
	var o schemas.Outcome
	if err := json.Unmarshal(r.Data, &o); err != nil {
		w.t.Fatalf("%v: %s", err, r.Data)
	}
	return &o
}

func ask[A any](w *world, verb string, q any) A {
	w.t.Helper()
	var a A
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := w.ctl.Ask(ctx, verb, q, &a); err != nil {
		w.t.Fatalf("%s: %v", verb, err)
	}
	return a
}

// seen records what a tool saw.
type seen struct {
	mu    sync.Mutex
	calls []dispatcher.Invocation
	at    []time.Time
}

func (s *seen) add(in dispatcher.Invocation) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.Arguments = bytes.Clone(in.Arguments)
	s.calls = append(s.calls, in)
	s.at = append(s.at, time.Now())
	return len(s.calls)
}

func (s *seen) n() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// forget starts the count again.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.at = nil, nil
}
