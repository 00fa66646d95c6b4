package client_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tollgate/client"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/internal/natstest"
	"tollgate/tools/function"
)

const tenantFile = `
nats: { url: "nats://in-process.invalid" }
ledger: { path: ledger.db, sync: 1m }
tenants: { t1: { tools: ["*"] } }
policies:
  quick:
    { attempts: 3, timeout: 1s, backoff: { base: 10ms, cap: 50ms, throttle_base: 50ms }, max_retry_after: 5s, max_deadline: 30s,
      run: { attempts: 100, side_effects: 100, elapsed: 1h, max_repairs: 2, max_accounts: 16 } }
tools:
  look: { function: look, effect: read, policies: [quick] }
`

// The client needs no right beyond those of the shipped account layout.
func TestTheClientNeedsOnlyAnAgentsRights(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		for name, password := range map[string]string{"DISPATCHER_PASSWORD": "d", "OPERATOR_PASSWORD": "o", "AGENT_PASSWORD": "a"} {
			t.Setenv(name, password)
		}
		dir := t.TempDir()
		node := natstest.Server(t, filepath.Join(dir, "nats"), func(o *server.Options) {
			store := o.StoreDir
			o.StoreDir = "" // the file names one
			if err := o.ProcessConfigFile("../deploy/nats/tollgate.conf"); err != nil {
				t.Fatal(err)
			}
			o.StoreDir, o.SyncAlways = store, false
		})
		cfg, err := config.Parse(filepath.Join(dir, "tollgate.yaml"), []byte(tenantFile), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		look := func(context.Context, dispatcher.Invocation) (any, error) { return "seen", nil }
		a, err := app.Start(context.Background(), app.Options{Config: cfg, Functions: map[string]function.Func{"look": look}, Log: zerolog.Nop(), Version: "test",
			Conn: func() (*nats.Conn, error) {
				return nats.Connect("", nats.InProcessServer(node), nats.UserInfo("dispatcher", "d"))
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			a.Stop()
			if err := a.Wait(); err != nil {
				t.Error(err)
			}
		})
		nc := natstest.Connect(t, node, nats.UserInfo("agent", "a"),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Error(err) }))
		c, err := client.Connect(nc, client.Tenant("t1"), client.Run("r"), client.Within(20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if o, err := c.Call(ctx, "look", nil, client.Key("1")); err != nil || o.Tenant != "t1" {
			t.Errorf("call: %+v, %v", o, err)
		}
		sub, err := c.Submit(ctx, "look", nil, client.Key("2"))
		if err != nil {
			t.Fatalf("submit: %v", err)
		}
		time.Sleep(time.Second)
		if o, err := c.Result(ctx, sub); err != nil || o.Content[0].Text != "seen" {
			t.Errorf("stored result: %+v, %v", o, err)
		}
		if _, err := c.Cancel(ctx, "r", "enough"); err != nil {
			t.Errorf("cancel: %v", err)
		}
		if _, err := c.Call(ctx, "look", nil, client.Key("3")); !errors.Is(err, client.ErrCancelled) {
			t.Errorf("after the cancellation: %v", err)
		}
	})
}
