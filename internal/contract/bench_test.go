package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// contractPolicies are short enough for tests in real time.
const contractPolicies = `
limits: { grace: 1s }
policies:
  contract:
    attempts: 4
    timeout: 1500ms
    backoff: { base: 50ms, cap: 200ms, throttle_base: 100ms }
    max_retry_after: 10s
    max_deadline: 1m
    run: { attempts: 100, side_effects: 100, elapsed: 1h, max_repairs: 2, max_accounts: 16 }
  patient: # for what takes the processor's time
    attempts: 4
    timeout: 15s
    backoff: { base: 50ms, cap: 200ms, throttle_base: 100ms }
    max_retry_after: 10s
    max_deadline: 1m
    run: { attempts: 100, side_effects: 100, elapsed: 1h, max_repairs: 2, max_accounts: 16 }
dependencies:
  calm: { quota: { ratio: 1, burst: 1000 }, breaker: off }
`

// How a tool of the bench may be declared.
const (
	keyed = "effect: write, retry_safety: idempotency_key, key_retention: 24h, "
	never = "effect: write, retry_safety: never, "
)

// late is what the promises leave to scheduling: a schedule fires at most 0.3 s late.
const late = 300 * time.Millisecond

// bench is a dispatcher that listens on a socket, and the bank in its four forms:
// a function in the process, a service behind HTTP, a program, and a service on its
// own NATS connection. Its tests are in real time, since sockets and processes know
// no other, and so must not run beside a bubble: none of them calls t.Parallel.
type bench struct {
	*world
	bank *bank
	own  *nats.Conn // the NATS service's
	log  *dispatcherLog
	slow *metronome
	told *told
}

// newBench starts one whose tools are each kind's "bank" and its "check", the
// bank declared as said, with KIND for the kind; more is added to the tools section.
func newBench(t *testing.T, declared, more string) *bench {
	t.Helper()
	b := &bench{bank: newBank(t), log: &dispatcherLog{}, slow: startMetronome(t), told: &told{ids: map[string]map[string]bool{}}}
	web := httptest.NewServer(b.bank)
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(b.bank.release) }) // before the server waits for its handlers
	script := filepath.Join(b.bank.dir, "bank.sh")
	if err := os.WriteFile(script, []byte(command), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := func(arg string) string {
		return fmt.Sprintf(`exec: { command: [/bin/sh, %q], args: [%q], env: { BANK: %q } }`, script, arg, b.bank.dir)
	}
	tools := more
	for kind, how := range map[string][2]string{
		"function": {"function: bank", "function: check"},
		"http":     {"http: { url: " + web.URL + "/bank }", "http: { url: " + web.URL + "/check }"},
		"exec":     {shell("{/script}"), shell("check")},
		"nats":     {"nats: { subject: svc.bank }", "nats: { subject: svc.check }"},
	} {
		tools += fmt.Sprintf("  %s.bank: { %s, %s dependency: calm, policies: [contract, patient] }\n", kind, how[0], strings.ReplaceAll(declared, "KIND", kind))
		tools += fmt.Sprintf("  %s.check: { %s, effect: read, dependency: calm, policies: [contract] }\n", kind, how[1])
	}
	b.world = realWorld(t, contractPolicies+"tools:\n"+tools, map[string]function.Func{"bank": b.bank.function, "check": b.bank.checkFunction}, b.log)
	b.own = dial(t, b.node)
	tool := func(m *nats.Msg) { go b.bank.serve(m) }
	for subject, do := range map[string]nats.MsgHandler{"svc.bank": tool, "svc.check": tool, "tollgate.results.default.*.*": b.told.hear} {
		if _, err := b.own.Subscribe(subject, do); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.own.Flush(); err != nil {
		t.Fatal(err)
	}
	return b
}

// realWorld is a world whose server listens on a loopback port, and whose
// dispatcher connects there as its configuration says.
func realWorld(t *testing.T, conf string, fns map[string]function.Func, log io.Writer) *world {
	t.Helper()
	runtime.GC() // a timer of a bubble that went before must not be found in nats.go's pool
	runtime.GC()
	w := &world{t: t, dir: t.TempDir(), fns: fns}
	w.node = natstest.Server(t, filepath.Join(w.dir, "nats"), func(o *server.Options) { o.DontListen, o.Host, o.Port = false, "127.0.0.1", -1 })
	w.conf = fmt.Sprintf("nats: { url: %q }\nledger: { path: %q }\n%s", w.node.Server().ClientURL(), filepath.Join(w.dir, "ledger.db"), conf)
	w.nc = dial(t, w.node)
	var err error
	if w.js, err = jetstream.New(w.nc); err != nil {
		t.Fatal(err)
	}
	subjects, err := schemas.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	w.ctl = &control.Client{NATS: w.nc, Subjects: subjects, By: "test"}
	c, err := config.Parse("test.yaml", []byte(w.conf), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("TOLLGATE_TEST_LOG") != "" {
		log = io.MultiWriter(log, os.Stderr)
	}
	if w.app, err = app.Start(context.Background(), app.Options{Config: c, Functions: fns, Log: zerolog.New(log), Version: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	return w
}

// dial opens a connection over the socket.
func dial(t *testing.T, n *natstest.Node) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(n.Server().ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// in is the bench for a subtest: what fails, fails there.
func (b *bench) in(t *testing.T) *bench {
	w := *b.world
	w.t = t
	return &bench{world: &w, bank: b.bank, own: b.own, log: b.log, slow: b.slow, told: b.told}
}

// call is a call of one kind's bank, in a run of its own. The odd spacing and the
// number show whether the bytes arrive as they were.
func (b *bench) call(kind, key, script string) msg {
	return msg{tool: kind + ".bank", run: kind + "-" + key, key: key, body: fmt.Sprintf(`{"script": %q,  "amount": 1.0}`, script)}
}

// kind is the first part of a tool's name on the bench.
func (m msg) kind() string {
	kind, _, _ := strings.Cut(m.tool, ".")
	return kind
}

// seen are the requests that the tool of a call saw.
func (b *bench) seen(m msg) []request {
	return b.bank.requests(m.kind(), callID(m))
}

// each publishes the same call to all four kinds, waits until every one has its
// outcome and any retry that should not be would have happened too, and checks each.
func (b *bench) each(key, script string, change func(*msg), check func(b *bench, m msg, o *schemas.Outcome)) {
	t := b.t
	t.Helper()
	var calls []msg
	for _, kind := range kinds {
		m := b.call(kind, key, script)
		if change != nil {
			change(&m)
		}
		b.publish(m)
		calls = append(calls, m)
	}
	for _, m := range calls {
		b.outcome(m, 20*time.Second)
	}
	time.Sleep(200*time.Millisecond + late) // the longest backoff, fired as late as may be
	for i, m := range calls {
		t.Run(kinds[i]+"/"+key, func(t *testing.T) {
			b := b.in(t)
			check(b, m, b.stored(m))
		})
	}
}

// letters are the dead letters of a call.
func (b *bench) letters(m msg) []schemas.Letter {
	b.t.Helper()
	return ask[deadletter.Page](b.world, control.VerbLetterList, deadletter.Filter{Call: callID(m)}).Letters
}

// letter is the one dead letter of a call.
func (b *bench) letter(m msg, reason string) schemas.Letter {
	b.t.Helper()
	all := b.letters(m)
	if len(all) != 1 || all[0].Reason != reason {
		b.t.Fatalf("letters %+v, want one with reason %s", all, reason)
	}
	return ask[schemas.Letter](b.world, control.VerbLetterShow, control.IDQuery{ID: all[0].ID})
}

// wants is what a test says of an outcome.
type wants struct {
	status   schemas.Status
	code     string
	requests int
	letter   string // reason; "": none
}

// expect checks what is true of every ended call: the outcome, the requests the
// tool saw, that as many attempts are recorded and charged (I4), that key and bytes
// were the same on each (I7), and the letter.
func (b *bench) expect(m msg, o *schemas.Outcome, want wants) []request {
	b.t.Helper()
	if o.Status != want.status || o.Code() != want.code {
		b.t.Errorf("%s %s %+v, want %s %s", o.Status, o.Code(), o.Error, want.status, want.code)
	}
	got := b.seen(m)
	if len(got) != want.requests {
		b.t.Fatalf("the tool saw %d requests, want %d: %+v", len(got), want.requests, o.Attempts)
	}
	for i, r := range got {
		if r.key != callID(m) || r.body != m.body || r.attempt != fmt.Sprint(i+1) || r.gen != "0" {
			b.t.Errorf("request %d: %+v", i+1, r)
		}
	}
	run := ask[control.RunDetail](b.world, control.VerbRunShow, control.RunQuery{Run: m.run}).Accounts[m.run]
	if len(o.Attempts) != want.requests || run.Attempts != want.requests || int(o.Budget.Attempts.Used) != want.requests {
		b.t.Errorf("%d requests, %d attempts recorded, %d charged, %d told", want.requests, len(o.Attempts), run.Attempts, o.Budget.Attempts.Used)
	}
	if want.letter != "" {
		b.letter(m, want.letter)
	} else if all := b.letters(m); len(all) > 0 {
		b.t.Errorf("letters %+v, want none", all)
	}
	return got
}

// told are the outcomes that were ever published, by call and generation.
type told struct {
	mu  sync.Mutex // guards ids
	ids map[string]map[string]bool
}

func (t *told) hear(m *nats.Msg) {
	var o struct {
		ID, Call   string
		Generation int
	}
	if err := json.Unmarshal(m.Data, &o); err != nil {
		o.ID = string(m.Data) // shows as an outcome too many
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := fmt.Sprintf("%s.%d", o.Call, o.Generation)
	if t.ids[at] == nil {
		t.ids[at] = map[string]bool{}
	}
	t.ids[at][o.ID] = true
}

// sound ends a test: no call was ever told two outcomes (I1), and the dispatcher
// finds its invariants held by what the test left behind.
func (b *bench) sound() {
	b.t.Helper()
	b.told.mu.Lock()
	defer b.told.mu.Unlock()
	for call, ids := range b.told.ids {
		if len(ids) != 1 {
			b.t.Errorf("I1: call %s was told %d outcomes: %v", call, len(ids), ids)
		}
	}
	if len(b.told.ids) == 0 {
		b.t.Error("no outcome was heard")
	}
	b.verify()
}
