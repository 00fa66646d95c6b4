package contract

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/internal/app"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// world is a dispatcher on a server that listens, and a client of both.
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
}

func (w *world) stop() {
	w.app.Stop()
	if err := w.app.Wait(); err != nil {
		w.t.Errorf("stop: %v", err)
	}
}

// msg is a call or job of the default tenant.
type msg struct {
	lane                 schemas.Lane
	tool, run, key, body string
	deadline             time.Duration
	header               map[string]string
}

func (m msg) build(to string) *nats.Msg {
	if m.deadline == 0 {
		m.deadline = 50 * time.Second
	}
	n := nats.NewMsg("tollgate." + to + ".default." + m.tool)
	n.Data = []byte(m.body)
	n.Header.Set(schemas.HeaderRun, m.run)
	n.Header.Set(schemas.HeaderKey, m.key)
	n.Header.Set(schemas.HeaderDeadline, time.Now().Add(m.deadline).UTC().Format(time.RFC3339Nano))
	for k, v := range m.header {
		n.Header.Set(k, v)
	}
	return n
}

func callID(m msg) string { return dedupe.CallID("default", schemas.Root(m.run), m.tool, m.key) }

func (w *world) publish(m msg) {
	w.t.Helper()
	lane := schemas.Calls
	if m.lane != "" {
		lane = m.lane
	}
	if _, err := w.js.PublishMsg(context.Background(), m.build(string(lane))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) do(m msg) *schemas.Outcome {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r, err := w.nc.RequestMsgWithContext(ctx, m.build("do"))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.read(r.Data)
}

func (w *world) read(body []byte) *schemas.Outcome {
	w.t.Helper()
	var o schemas.Outcome
	if err := json.Unmarshal(body, &o); err != nil {
		w.t.Fatalf("%v: %s", err, body)
	}
	return &o
}

// stored is the outcome on the results stream, nil while there is none.
func (w *world) stored(m msg) *schemas.Outcome {
	w.t.Helper()
	st, err := w.js.Stream(context.Background(), "TOLLGATE_RESULTS")
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := st.GetLastMsgForSubject(context.Background(), w.ctl.Subjects.Result("default", schemas.Root(m.run), callID(m)))
	if err != nil {
		return nil
	}
	return w.read(raw.Data)
}

// outcome waits for an outcome of at least the given generation.
func (w *world) outcome(m msg, within time.Duration, generation ...int) *schemas.Outcome {
	w.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if o := w.stored(m); o != nil && (len(generation) == 0 || o.Generation >= generation[0]) {
			return o
		}
	}
	w.t.Fatalf("no outcome of %s/%s within %s", m.run, m.key, within)
	return nil
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

// verify asks the live system whether its invariants hold.
func (w *world) verify() {
	w.t.Helper()
	if rep := ask[control.VerifyReport](w, control.VerbVerify, control.Empty{}); !rep.OK {
		w.t.Errorf("verify: %+v", rep.Checks)
	}
}
