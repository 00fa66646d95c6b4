// Package tollgatetest is Tollgate for tests: a real NATS server without ports, a real
// ledger in a directory of the test, and tools that are functions of the test.
//
//	s := tollgatetest.New(t, tollgatetest.Tool{Name: "crm.find", Read: true, Func: find})
//	out, err := s.Client().Call(ctx, "crm.find", args, client.Run("run_1"))
//
// Nothing is faked, only small: retries come after milliseconds, and what a crash of the
// whole machine would lose is not held against the disk. It also works in virtual time,
// see [Bubble].
package tollgatetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tollgate/client"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/internal/embedded"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// Server is a running Tollgate. It ends with its test.
type Server struct {
	t     testing.TB
	conn  *nats.Conn
	admin *control.Client
}

// New starts a Tollgate with the given tools. With TOLLGATE_TEST_LOG set it logs what
// it decides to standard error.
func New(t testing.TB, tools ...Tool) *Server {
	t.Helper()
	dir := t.TempDir()
	node, err := embedded.Start(embedded.Options{StoreDir: filepath.Join(dir, "nats"), SyncInterval: time.Minute})
	if err != nil {
		t.Fatalf("tollgatetest: %v", err)
	}
	t.Cleanup(node.Shutdown)
	connect := func() (*nats.Conn, error) {
		return node.Conn(nats.ReconnectWait(50*time.Millisecond), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	}
	serve(t, dir, connect, tools)
	conn, err := connect()
	if err != nil {
		t.Fatalf("tollgatetest: %v", err)
	}
	t.Cleanup(conn.Close)
	subjects, _ := schemas.NewSubjects("")
	return &Server{t: t, conn: conn, admin: &control.Client{NATS: conn, Subjects: subjects, By: "tollgatetest"}}
}

// serve starts the dispatcher, and stops it at the end of the test.
func serve(t testing.TB, dir string, connect func() (*nats.Conn, error), tools []Tool) {
	t.Helper()
	functions := map[string]function.Func{}
	for _, tool := range tools {
		functions[tool.Name] = tool.Func
	}
	c, err := config.Parse("tollgatetest", document(t, dir, tools), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatalf("tollgatetest: the tools are not legal: %v", err)
	}
	a, err := app.Start(context.Background(), app.Options{Config: c, Functions: functions, Log: log(), Version: "test", Conn: connect, Sweep: time.Second})
	if err != nil {
		t.Fatalf("tollgatetest: %v", err)
	}
	t.Cleanup(func() {
		a.Stop()
		if err := a.Wait(); err != nil {
			t.Errorf("tollgatetest: stop: %v", err)
		}
	})
}

func log() zerolog.Logger {
	if os.Getenv("TOLLGATE_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(os.Stderr)
}

// document is the configuration. JSON is YAML.
func document(t testing.TB, dir string, tools []Tool) []byte {
	t.Helper()
	policies, catalogue := map[string]any{}, map[string]any{}
	for i, tool := range tools {
		name := fmt.Sprintf("policy%d", i)
		if _, twice := catalogue[tool.Name]; twice {
			t.Fatalf("tollgatetest: there are two tools named %s", tool.Name)
		}
		policies[name] = tool.policy()
		catalogue[tool.Name] = tool.entry(name)
	}
	b, err := json.Marshal(map[string]any{
		"nats":     map[string]any{"url": "nats://in-process.invalid"},
		"ledger":   map[string]any{"path": filepath.Join(dir, "ledger.db"), "sync": "1m"},
		"limits":   map[string]any{"shutdown_grace": "1s", "unserved_grace": "1s"},
		"policies": policies, "tools": catalogue,
	})
	if err != nil {
		t.Fatalf("tollgatetest: the tools are not legal: %v", err)
	}
	return b
}

// Client returns a new client of this server; the options are its defaults.
func (s *Server) Client(opts ...client.Option) *client.Client {
	s.t.Helper()
	c, err := client.Connect(s.conn, opts...)
	if err != nil {
		s.t.Fatalf("tollgatetest: %v", err)
	}
	return c
}

// Conn returns the connection of the agents, for whatever a plain NATS client does.
func (s *Server) Conn() *nats.Conn { return s.conn }

// Letters returns the active dead letters, the newest first: what an operator would
// have to look at.
func (s *Server) Letters() []schemas.Letter {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var page deadletter.Page
	if err := s.admin.Ask(ctx, control.VerbLetterList, deadletter.Filter{Limit: 1000}, &page); err != nil {
		s.t.Fatalf("tollgatetest: dead letters: %v", err)
	}
	return page.Letters
}

// Grant raises the limits of a run path, as an operator would.
func (s *Server) Grant(run string, attempts, sideEffects int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	q := control.GrantQuery{Run: run, Attempts: attempts, SideEffects: sideEffects, Why: "a test"}
	if err := s.admin.Ask(ctx, control.VerbRunGrant, q, &control.RunDetail{}); err != nil {
		s.t.Fatalf("tollgatetest: grant: %v", err)
	}
}

// Bubble runs f in virtual time, where waits of hours end at once: see testing/synctest.
// Such a test must not call t.Parallel, and starts its [Server] inside of f.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	natstest.Bubble(t, f)
}
