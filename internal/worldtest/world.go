package worldtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/control"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/internal/embedded"
	"tollgate/internal/natstest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// World is a dispatcher with function tools on a server of its own.
type World struct {
	T         *testing.T
	Dir       string
	Node      *natstest.Node
	Config    string // the file's text; a change takes effect at the next start
	Functions map[string]function.Func
	App       *app.App // nil while it is stopped
	NC        *nats.Conn
	JS        jetstream.JetStream
	Ctl       *control.Client
	Log       io.Writer

	AckWait  time.Duration // of the consumers; 0: the default
	Recover  bool
	Sweep    time.Duration              // between sweeps; 0: the default
	Provider nats.InProcessConnProvider // of the dispatcher's connection; nil: Node
	Commit   func(func() error) error   // around every commit of the ledger; nil: nothing

	crashes int
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

// New starts a world whose tools section is given.
func New(t *testing.T, tools string, fns map[string]function.Func) *World {
	t.Helper()
	w := Prepare(t, tools, fns, false)
	w.Start()
	t.Cleanup(w.Stop)
	return w
}

// Prepare makes a world whose dispatcher is not started yet. With own, its server is
// set up as the dispatcher's own embedded one and the dispatcher believes that it is.
func Prepare(t *testing.T, tools string, fns map[string]function.Func, own bool) *World {
	t.Helper()
	w := &World{T: t, Dir: t.TempDir(), Functions: fns, Log: io.Discard}
	if os.Getenv("TOLLGATE_TEST_LOG") != "" {
		w.Log = os.Stderr
	}
	server := "url: nats://127.0.0.1:1"
	var opts []natstest.Option
	if own {
		server = "embedded: { sync: always }"
		opts = append(opts, embedded.Durability(0))
	}
	w.Config = fmt.Sprintf("nats: { %s }\nledger: { path: %q }\nlimits: { unserved_grace: 5s }\n%s\ntools:\n%s",
		server, w.Ledger(), policies, tools)
	w.Node = natstest.Server(t, filepath.Join(w.Dir, "nats"), opts...)
	w.NC = natstest.Connect(t, w.Node)
	var err error
	if w.JS, err = jetstream.New(w.NC); err != nil {
		t.Fatal(err)
	}
	subjects, _ := schemas.NewSubjects("")
	w.Ctl = &control.Client{NATS: w.NC, Subjects: subjects, By: "test"}
	return w
}

// Options are those of the next start.
func (w *World) Options() app.Options {
	w.T.Helper()
	c, err := config.Parse("test.yaml", []byte(w.Config), os.LookupEnv)
	if err != nil {
		w.T.Fatal(err)
	}
	return app.Options{Config: c, Functions: w.Functions, Log: zerolog.New(w.Log), Version: "test", FileID: "the one ledger", Sweep: w.Sweep, AckWait: w.AckWait, Recover: w.Recover, Commit: w.Commit,
		Conn: func() (*nats.Conn, error) {
			from := w.Provider
			if from == nil {
				from = w.Node
			}
			return nats.Connect("", nats.InProcessServer(from), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
		}}
}

// Start starts the dispatcher.
func (w *World) Start() {
	w.T.Helper()
	a, err := app.Start(context.Background(), w.Options())
	if err != nil {
		w.T.Fatal(err)
	}
	w.App = a
}

// Stop stops it as SIGTERM does.
func (w *World) Stop() {
	if w.App == nil {
		return
	}
	w.App.Stop()
	if err := w.App.Wait(); err != nil {
		w.T.Errorf("stop: %v", err)
	}
	w.App = nil
}

// Again stops the dispatcher, changes the world and starts it.
func (w *World) Again(change func()) {
	w.T.Helper()
	w.Stop()
	change()
	w.Start()
}
