// Package demo is a world to try Tollgate in: a real HTTP server whose tools fail
// on request, a payment provider with a table of its own, the configuration that
// serves them, and the story that `make demo` tells.
//
// Nothing here is needed by a real installation, and nothing else may depend on it:
// no behaviour of the dispatcher lives here.
package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// World is the tools of the demonstration, running.
type World struct {
	url    string
	server *http.Server
	served chan struct{}
	table  *table

	mu     sync.Mutex                // guards healed and seen
	healed bool                      // every tool works from now on
	seen   map[string]map[string]int // requests by tool and idempotency key
}

// Start starts the tools on a free loopback port. What the payment provider has done
// is kept in a file under dir, which outlives every process. It runs until ctx ends
// or Close.
func Start(ctx context.Context, dir string) (*World, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the demonstration: %w", err)
	}
	t, err := openTable(filepath.Join(dir, "payments.jsonl"))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the demonstration's tools: %w", err), t.close())
	}
	w := &World{url: "http://" + l.Addr().String(), table: t, seen: map[string]map[string]int{}, served: make(chan struct{})}
	w.server = &http.Server{Handler: w.routes(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(w.served)
		_ = w.server.Serve(l) // it ends by Close only
	}()
	context.AfterFunc(ctx, func() { _ = w.Close() })
	return w, nil
}

// Close stops the tools. It may be called more than once.
func (w *World) Close() error {
	err := w.server.Close()
	<-w.served
	return errors.Join(err, w.table.close())
}

// URL is where the tools are.
func (w *World) URL() string { return w.url }

// Heal makes every tool work from now on; Break lets the arguments choose again.
func (w *World) Heal() { w.setHealed(true) }

// Break undoes Heal.
func (w *World) Break() { w.setHealed(false) }

func (w *World) setHealed(v bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.healed = v
}

// Requests is how many requests each idempotency key made to a tool.
func (w *World) Requests(tool string) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.seen[tool])
}

// Asked is how many requests one idempotency key made to a tool, and whether the
// provider has acted on any.
func (w *World) Asked(tool, key string) (requests int, paid bool) {
	w.mu.Lock()
	requests = w.seen[tool][key]
	w.mu.Unlock()
	return requests, w.table.has(tool, key)
}

// Payments is what the provider has done, in order.
func (w *World) Payments() []Payment { return w.table.rows() }

// arrived counts a request and says the how-manieth of its key it is, and whether
// the arguments choose how it goes.
func (w *World) arrived(tool, key string) (n int, healed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[tool] == nil {
		w.seen[tool] = map[string]int{}
	}
	w.seen[tool][key]++
	return w.seen[tool][key], w.healed
}
