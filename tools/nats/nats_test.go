package nats_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	natstool "tollgate/tools/nats"
)

var attempt = dispatcher.Invocation{
	Tool: "pay", Run: "run_1/a", Call: "c1", Key: "k1", Attempt: 2, Generation: 1,
	Deadline: time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC), TraceParent: "00-ab-cd-01", Arguments: []byte(`{"b": 1,"a":"x"}`),
}

func startServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(5 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	return s
}

func connect(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func executor(t *testing.T, s natstool.Spec) *natstool.Executor {
	t.Helper()
	e, err := natstool.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// serve answers "pay" and waits until the server knows of the subscription.
func serve(t *testing.T, nc *nats.Conn, h nats.MsgHandler) {
	t.Helper()
	if _, err := nc.Subscribe("pay", h); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func short(v classify.Verdict) string {
	if v.OK() {
		return "ok " + v.Phase.String()
	}
	return v.Class.String() + " " + v.Phase.String() + " " + v.Code
}

// I7 at the executor: bytes, key and everything an attempt is told arrive unchanged.
func TestRequestAsSent(t *testing.T) {
	s := startServer(t)
	got := make(chan *nats.Msg, 1)
	serve(t, connect(t, s), func(m *nats.Msg) {
		got <- m
		m.RespondMsg(&nats.Msg{Data: []byte(`{"ok": true}`), Header: nats.Header{"Idempotent-Replayed": {"true"}}})
	})
	v := executor(t, natstool.Spec{Conn: connect(t, s), Subject: "pay"}).Execute(t.Context(), attempt)
	if !v.OK() || string(v.Structured) != `{"ok": true}` || !v.ToolRepeated {
		t.Fatalf("%+v", v)
	}
	m := <-got
	if string(m.Data) != string(attempt.Arguments) {
		t.Errorf("arguments %s", m.Data)
	}
	for name, want := range map[string]string{
		"Idempotency-Key": "k1", "Tollgate-Run-Id": "run_1/a", "Tollgate-Call": "c1", "Tollgate-Attempt": "2",
		"Tollgate-Generation": "1", "Tollgate-Deadline": "2026-03-01T12:00:00.000000005Z", "traceparent": "00-ab-cd-01",
	} {
		if m.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, m.Header.Get(name), want)
		}
	}
}

// B43, DESIGN 7 and 13: error codes by the table, tool errors above it, one request each.
func TestRepliesByCode(t *testing.T) {
	s := startServer(t)
	var requests atomic.Int32
	var reply atomic.Pointer[nats.Msg]
	serve(t, connect(t, s), func(m *nats.Msg) { requests.Add(1); m.RespondMsg(reply.Load()) })
	e := executor(t, natstool.Spec{Conn: connect(t, s), Subject: "pay", MaxResult: 1000})
	failed := func(code string, data string) *nats.Msg {
		return &nats.Msg{Data: []byte(data), Header: nats.Header{"Nats-Service-Error": {"x"}, "Nats-Service-Error-Code": {code}, "Retry-After": {"7"}}}
	}
	const busy = `{"code":"BUSY","retryable":true,"retry_after_ms":1200,"stop_reason":null}`
	for _, tt := range []struct {
		name  string
		reply *nats.Msg
		want  string
		wait  time.Duration
	}{
		{"503", failed("503", ""), "transient no_answer NATS_503", 7 * time.Second},
		{"429", failed("429", ""), "transient answered NATS_429", 7 * time.Second},
		{"400", failed("400", "no"), "permanent answered NATS_400", 0},
		{"401", failed("401", ""), "permanent answered NATS_401", 0},
		{"unlisted", failed("299", ""), "unclassified answered NATS_299", 0},
		{"lower-case header", &nats.Msg{Header: nats.Header{"nats-service-error-code": {"400"}}}, "permanent answered NATS_400", 0},
		{"no code", &nats.Msg{Header: nats.Header{"Nats-Service-Error": {"x"}}}, "unclassified answered UNCLASSIFIED", 0},
		{"tool error above the code", failed("400", busy), "transient answered BUSY", 1200 * time.Millisecond},
		{"tool error without a code", &nats.Msg{Data: []byte(busy)}, "transient answered BUSY", 1200 * time.Millisecond},
		{"empty", &nats.Msg{}, "ok answered", 0},
		{"at the limit", &nats.Msg{Data: make([]byte, 1000)}, "ok answered", 0},
		{"too large", &nats.Msg{Data: make([]byte, 1001)}, "permanent answered RESULT_TOO_LARGE", 0},
		{"large failure", failed("503", strings.Repeat("x", 2000)), "transient no_answer NATS_503", 7 * time.Second},
	} {
		reply.Store(tt.reply)
		requests.Store(0)
		v := e.Execute(t.Context(), attempt)
		if short(v) != tt.want || v.RetryAfter != tt.wait || requests.Load() != 1 {
			t.Errorf("%s: %s wait %v after %d requests, want %s wait %v after 1", tt.name, short(v), v.RetryAfter, requests.Load(), tt.want, tt.wait)
		}
	}
}

// A service made with the micro framework needs nothing more.
func TestMicroService(t *testing.T) {
	s := startServer(t)
	provider := connect(t, s)
	svc, err := micro.AddService(provider, micro.Config{Name: "pay", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.AddEndpoint("pay", micro.HandlerFunc(func(r micro.Request) { r.Error("404", "no such account", []byte("try another")) })); err != nil {
		t.Fatal(err)
	}
	if err := provider.Flush(); err != nil { // the server knows of the endpoint now
		t.Fatal(err)
	}
	e := executor(t, natstool.Spec{Conn: connect(t, s), Subject: "pay"})
	v := e.Execute(t.Context(), attempt)
	if short(v) != "permanent answered NATS_404" || v.For != classify.ForModel || v.Content[0].Text != "try another" {
		t.Errorf("%+v", v)
	}
	if err := svc.Stop(); err != nil {
		t.Fatal(err)
	}
	provider.Close()
	for deadline := time.Now().Add(5 * time.Second); s.NumClients() > 1 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if v = e.Execute(t.Context(), attempt); short(v) != "transient not_sent NO_RESPONDERS" {
		t.Errorf("stopped service: %s", short(v))
	}
}

func TestNotSent(t *testing.T) {
	s := startServer(t)
	nc := connect(t, s)
	e := executor(t, natstool.Spec{Conn: nc, Subject: "pay"})
	began := time.Now()
	if v := e.Execute(t.Context(), attempt); short(v) != "transient not_sent NO_RESPONDERS" || time.Since(began) > time.Second {
		t.Errorf("nobody listens: %s after %v", short(v), time.Since(began))
	}
	in := attempt
	in.Arguments = make([]byte, 2<<20)
	if v := e.Execute(t.Context(), in); short(v) != "permanent not_sent TOO_LARGE" {
		t.Errorf("too large: %s", short(v))
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutting down"))
	if v := e.Execute(ended, attempt); short(v) != "transient not_sent INTERRUPTED" {
		t.Errorf("stopped before it began: %s", short(v))
	}
	s.Shutdown()
	s.WaitForShutdown()
	for deadline := time.Now().Add(5 * time.Second); nc.IsConnected() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if v := e.Execute(t.Context(), attempt); short(v) != "transient not_sent NOT_CONNECTED" {
		t.Errorf("server gone: %s", short(v))
	}
	nc.Close()
	if v := e.Execute(t.Context(), attempt); short(v) != "transient not_sent NOT_CONNECTED" {
		t.Errorf("connection closed: %s", short(v))
	}
}

// B88, B04: once a service has it, silence and a closed connection are no answer.
func TestNoAnswer(t *testing.T) {
	s := startServer(t)
	arrived := make(chan struct{}, 8)
	serve(t, connect(t, s), func(*nats.Msg) { arrived <- struct{}{} })
	nc := connect(t, s)
	e := executor(t, natstool.Spec{Conn: nc, Subject: "pay"})

	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("own cause"))
	defer cancel()
	if v := e.Execute(ctx, attempt); short(v) != "transient no_answer TIMEOUT" {
		t.Errorf("silence: %s", short(v))
	}
	<-arrived
	stopped, stop := context.WithCancelCause(t.Context())
	go func() { <-arrived; stop(errors.New("shutting down")) }()
	if v := e.Execute(stopped, attempt); short(v) != "transient no_answer INTERRUPTED" {
		t.Errorf("stopped: %s", short(v))
	}
	go func() { <-arrived; nc.Close() }()
	if v := e.Execute(t.Context(), attempt); short(v) != "transient no_answer CONNECTION_LOST" {
		t.Errorf("connection closed while waiting: %s", short(v))
	}
}

func TestSpecIsChecked(t *testing.T) {
	_, err := natstool.New(natstool.Spec{Subject: "a.*", MaxResult: -1, Rules: classify.Rules{ErrorAt: "x"}})
	for _, part := range []string{"no connection", "subject", "max_result", "error_at"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not named in %v", part, err)
		}
	}
	for _, subject := range []string{"", "a..b", ".a", "a b", "a.>"} {
		if _, err := natstool.New(natstool.Spec{Conn: &nats.Conn{}, Subject: subject}); err == nil {
			t.Errorf("subject %q was accepted", subject)
		}
	}
}
