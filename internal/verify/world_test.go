package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/consumer"
	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/internal/natstest"
	"tollgate/internal/verify"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const configuration = `
nats: { url: nats://127.0.0.1:1 }
ledger: { path: %q, retention: 168h }
policies:
  p:
    attempts: 4
    timeout: 3s
    backoff: { base: 100ms, cap: 1s, throttle_base: 1s }
    max_retry_after: 1h
    max_deadline: 2h
    run: { attempts: 1000, side_effects: 1000, elapsed: 12h, max_repairs: 2, max_accounts: 16 }
dependencies:
  d: { breaker: off, quota: { ratio: 1, burst: 1000, refill_per_s: 10 } }
tools:
  t.read: { function: read, effect: read, dependency: d, policies: [p] }
  t.wire: { function: wire, effect: write, retry_safety: never, dependency: d, policies: [p] }
  t.later: { function: later, effect: read, dependency: d, policies: [p] }
  t.flaky: { function: flaky, effect: write, retry_safety: idempotent, dependency: d, policies: [p] }
`

// world is a dispatcher that has done one call of every kind that verify looks at.
type world struct {
	t      *testing.T
	path   string
	node   *natstest.Node
	nc     *nats.Conn
	js     jetstream.JetStream
	ctl    *control.Client
	app    *app.App
	ledger *bolt.Ledger
}

func functions() map[string]function.Func {
	return map[string]function.Func{
		"read": func(context.Context, dispatcher.Invocation) (any, error) { return "ok", nil },
		"wire": func(context.Context, dispatcher.Invocation) (any, error) { panic("the answer is lost") },
		"later": func(context.Context, dispatcher.Invocation) (any, error) {
			return nil, function.Transient("BUSY", "come again", 30*time.Minute)
		},
		"flaky": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if in.Attempt < 3 {
				return nil, function.Transient("BUSY", "come again", 0)
			}
			return "ok", nil
		},
	}
}

func newWorld(t *testing.T) *world { return newWorldWith(t, configuration) }

func newWorldWith(t *testing.T, configuration string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, path: filepath.Join(dir, "ledger.db"), node: natstest.Server(t, filepath.Join(dir, "nats"))}
	w.nc = natstest.Connect(t, w.node)
	w.js, _ = jetstream.New(w.nc)
	subjects, _ := schemas.NewSubjects("")
	w.ctl = &control.Client{NATS: w.nc, Subjects: subjects, By: "test"}
	c, err := config.Parse("test.yaml", fmt.Appendf(nil, configuration, w.path), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	w.app, err = app.Start(t.Context(), app.Options{Config: c, Functions: functions(), Log: zerolog.Nop(), Version: "test",
		Conn: func() (*nats.Conn, error) {
			return nats.Connect("", nats.InProcessServer(w.node), nats.MaxReconnects(-1))
		}})
	if err != nil {
		t.Fatal(err)
	}
	w.ledger = w.app.Ledger()
	t.Cleanup(w.stop)
	return w
}

func (w *world) stop() {
	if w.app == nil {
		return
	}
	w.app.Stop()
	if err := w.app.Wait(); err != nil {
		w.t.Error(err)
	}
	w.app = nil
}

// settled runs one call of each kind, stops the dispatcher and opens its ledger, so
// that nothing moves any more.
func (w *world) settled() {
	w.t.Helper()
	for _, tool := range []string{"t.read", "t.wire", "t.later", "t.flaky"} {
		w.publish(tool, "run/child", "k")
	}
	time.Sleep(3 * time.Second)
	for tool, state := range map[string]dedupe.State{"t.read": dedupe.Done, "t.wire": dedupe.Dead, "t.later": dedupe.Waiting, "t.flaky": dedupe.Done} {
		if r := w.record(tool); r.State != state || r.Slot != 0 {
			w.t.Fatalf("%s is %s, owing %s", tool, r.State, r.Slot)
		}
	}
	w.stop()
	l, err := bolt.Open(w.path, bolt.Options{Retention: 170 * time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	w.ledger = l
	w.t.Cleanup(func() { _ = l.Close() })
}

func call(tool string) string { return dedupe.CallID("default", "run", tool, "k") }

func (w *world) publish(tool, run, key string) {
	w.t.Helper()
	m := nats.NewMsg("tollgate.calls.default." + tool)
	m.Data = []byte("{}")
	m.Header.Set(schemas.HeaderRun, run)
	m.Header.Set(schemas.HeaderKey, key)
	m.Header.Set(schemas.HeaderDeadline, time.Now().Add(100*time.Minute).UTC().Format(time.RFC3339Nano))
	if _, err := w.js.PublishMsg(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) record(tool string) *dedupe.Record {
	w.t.Helper()
	r, err := w.ledger.Record(call(tool))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// tamper changes a record and its run behind everybody's back.
func (w *world) tamper(tool string, f func(v dedupe.View) dedupe.Change) {
	w.t.Helper()
	if _, err := w.ledger.Update(w.t.Context(), dedupe.Ref{Tenant: "default", Root: "run", Call: call(tool)}, f); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) verify() control.VerifyReport {
	w.t.Helper()
	subjects, _ := schemas.NewSubjects("")
	report, err := verify.Run(w.t.Context(), verify.Sources{Ledger: w.ledger, JetStream: w.js, Subjects: subjects, Names: consumer.StreamNames(subjects)})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// remove deletes the newest message of a subject.
func (w *world) remove(stream, subject string) {
	w.t.Helper()
	st, err := w.js.Stream(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	m, err := st.GetLastMsgForSubject(w.t.Context(), subject)
	if err == nil {
		err = st.DeleteMsg(w.t.Context(), m.Sequence)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) store(subject string, header map[string]string, body any) {
	w.t.Helper()
	m := nats.NewMsg(subject)
	for k, v := range header {
		m.Header.Set(k, v)
	}
	m.Data, _ = json.Marshal(body)
	if _, err := w.js.PublishMsg(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

func faults(report control.VerifyReport) string {
	var all []string
	for _, c := range report.Checks {
		for _, f := range c.Faults {
			all = append(all, c.Name+": "+f)
		}
	}
	return strings.Join(all, "\n")
}

// blames reports whether a fault of a check says so.
func blames(report control.VerifyReport, check, says string) bool {
	for _, c := range report.Checks {
		for _, f := range c.Faults {
			if c.Name == check && strings.Contains(f, says) {
				return true
			}
		}
	}
	return false
}
