package examples_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tollgate/client"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/tools/function"
)

const file = `
nats: { embedded: { listen: "127.0.0.1:0", store_dir: %q, sync: 1m } }
ledger: { path: %q, sync: 1m }
limits: { shutdown_grace: 1s }
policies:
  quick:
    attempts: 3
    timeout: 3s
    backoff: { base: 20ms, cap: 100ms, throttle_base: 100ms }
    max_retry_after: 5s
    max_deadline: 30s
    run: { attempts: 100, side_effects: 100, elapsed: 1h, max_repairs: 2, max_accounts: 16 }
tools:
  demo.echo: { function: demo.echo, effect: read, policies: [quick] }
  charge: { http: { url: %q }, effect: write, retry_safety: idempotency_key, key_retention: 24h, policies: [quick] }
`

// serve starts what `tollgate serve` starts, with a listener, and returns its address.
func serve(t *testing.T, chargeURL string) string {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(file, filepath.Join(dir, "nats"), filepath.Join(dir, "ledger.db"), chargeURL)
	c, err := config.Parse("examples.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	echo := func(_ context.Context, in dispatcher.Invocation) (any, error) {
		return json.RawMessage(in.Arguments), nil
	}
	a, err := app.Start(context.Background(), app.Options{Config: c, Functions: map[string]function.Func{"demo.echo": echo}, Log: zerolog.Nop(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Stop()
		if err := a.Wait(); err != nil {
			t.Error(err)
		}
	})
	return a.ClientURL()
}

// result is what the ledger's side says of the call that an example made.
func result(t *testing.T, url, run, key string) *client.Outcome {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := client.Connect(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o, err := c.Result(ctx, &client.Submission{Run: run, Tool: "demo.echo", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return o
}
