package bench

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"tollgate/dedupe/bolt"
	"tollgate/dispatcher"
	"tollgate/internal/app"
	"tollgate/internal/config"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// configuration serves one tool that does nothing and answers with 300 bytes.
const configuration = `
nats:
  embedded: { listen: "127.0.0.1:0", store_dir: nats, sync: %[1]s }
ledger: { path: ledger.db, sync: %[1]s, retention: 168h }
policies:
  bench:
    attempts: 3
    timeout: 10s
    backoff: { base: 100ms, cap: 1s, throttle_base: 1s }
    max_retry_after: 1m
    max_deadline: 4h
    run: { attempts: 1000000, side_effects: 1000000, elapsed: 12h, max_repairs: 1, max_accounts: 4 }
tools:
  bench.noop:
    %[2]s
    effect: write
    retry_safety: idempotency_key
    key_retention: 24h
    concurrency: 256
    policies: [bench]
`

const (
	toolName    = "bench.noop"
	callsPerRun = 50  // an agent's run
	clients     = 16  // connections
	idleCalls   = 200 // with one in flight
	roundWithin = 10 * time.Minute

	retention = 172 * time.Hour // of settled calls: as configured, and the longest call
)

// result is what the tool answers: 300 bytes of JSON that no compression shortens.
var result = []byte(`{"text":"` + noise(289) + `"}`)

func noise(n int) string {
	var b []byte
	for sum := sha256.Sum256(nil); len(b) < n; sum = sha256.Sum256(sum[:]) {
		b = base64.RawURLEncoding.AppendEncode(b, sum[:])
	}
	return string(b[:n])
}

// product is a dispatcher under measurement.
type product struct {
	o     Options
	app   *app.App
	tool  *http.Server // nil: the tool is a function
	ran   atomic.Int64 // how often the tool was run
	conns []*nats.Conn
	js    []jetstream.JetStream
}

func startProduct(ctx context.Context, o Options) (_ *product, err error) {
	p := &product{o: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	kind := "function: noop"
	if o.Tool == "http" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		p.tool = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			p.ran.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(result)
		})}
		go func() { _ = p.tool.Serve(l) }() // ends with Close
		kind = fmt.Sprintf("http: { url: %q }", "http://"+l.Addr().String())
	}
	sync := "always"
	if o.Sync > 0 {
		sync = config.Sync{Every: o.Sync}.String()
	}
	c, err := config.Parse(filepath.Join(o.Dir, "bench.yaml"), fmt.Appendf(nil, configuration, sync, kind), func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, err
	}
	noop := func(context.Context, dispatcher.Invocation) (any, error) {
		p.ran.Add(1)
		return result, nil
	}
	p.app, err = app.Start(ctx, app.Options{Config: c, Functions: map[string]function.Func{"noop": noop}, Log: zerolog.Nop(), Version: "bench"})
	if err != nil {
		return nil, err
	}
	return p, p.connect()
}

func (p *product) connect() error {
	for range clients {
		nc, err := nats.Connect(p.app.ClientURL())
		if err != nil {
			return err
		}
		p.conns = append(p.conns, nc)
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		p.js = append(p.js, js)
	}
	return nil
}

func (p *product) close() error {
	for _, nc := range p.conns {
		nc.Close()
	}
	var err error
	if p.app != nil {
		p.app.Stop()
		err = p.app.Wait()
	}
	if p.tool != nil {
		err = errors.Join(err, p.tool.Close())
	}
	return err
}

// settleDown waits until nothing is owed: the schedules of waiting calls are armed.
func (p *product) settleDown(ctx context.Context) error {
	for {
		results, audits, slots := p.app.Ledger().Pending()
		if results+audits+slots == 0 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// arguments are what a call carries, with a note as long as the payload asks for.
func arguments(payload int) []byte {
	const before, note, after = `{"customer":"c-10293","amount_cents":1250,"currency":"EUR","note":"`, "order 99281", `"}`
	return []byte(before + note + strings.Repeat(".", max(0, payload-len(before+note+after))) + after)
}

// message is the n-th call of a round. Runs are of the size an agent's are.
func (o Options) message(prefix, round string, n int) *nats.Msg {
	m := nats.NewMsg(prefix + ".default." + toolName)
	m.Data = arguments(o.Payload)
	m.Header.Set(schemas.HeaderRun, fmt.Sprintf("bench-%s-%d", round, n/callsPerRun))
	m.Header.Set(schemas.HeaderKey, fmt.Sprintf("step-%d", n))
	m.Header.Set(schemas.HeaderDeadline, time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano))
	return m
}

// round sends all calls and returns the time from the first publish to the last
// settled outcome.
func (p *product) round(ctx context.Context, n int) (time.Duration, error) {
	name := fmt.Sprintf("r%d", n)
	if p.o.Via == "do" {
		began := time.Now()
		err := each(ctx, p.o.Calls, p.o.InFlight, func(ctx context.Context, worker, i int) error {
			return p.do(ctx, worker, p.o.message("tollgate.do", name, i))
		})
		return time.Since(began), err
	}
	return timed(ctx, p.conns[0], "tollgate.results.>", p.o.Calls, func(ctx context.Context) error {
		return each(ctx, p.o.Calls, p.o.InFlight, func(ctx context.Context, worker, i int) error {
			_, err := p.js[worker%clients].PublishMsg(ctx, p.o.message("tollgate.calls", name, i))
			return err
		})
	})
}

func (p *product) do(ctx context.Context, worker int, m *nats.Msg) error {
	reply, err := p.conns[worker%clients].RequestMsgWithContext(ctx, m)
	if err != nil {
		return err
	}
	if code := reply.Header.Get(schemas.HeaderServiceErrorCode); code != "" {
		return fmt.Errorf("a call was answered with code %s: %s", code, reply.Data)
	}
	return nil
}

// latencies measures one call at a time.
func (p *product) latencies(ctx context.Context) ([]time.Duration, error) {
	if p.o.Via == "do" {
		return repeat(ctx, idleCalls, p.o.Pause, func(i int) error { return p.do(ctx, 0, p.o.message("tollgate.do", "idle", i)) })
	}
	return oneByOne(ctx, p.o.Pause, p.conns[0], p.js[0], "tollgate.results.>", func(i int) *nats.Msg { return p.o.message("tollgate.calls", "idle", i) })
}

type size struct{ used, compacted int64 }

// ledgerSize is how far the ledger's file is filled, as it is and without its free
// space. The file itself grows in steps that say nothing of a call.
func (p *product) ledgerSize() (s size, err error) {
	if s.used, err = p.app.Ledger().Backup(io.Discard); err != nil {
		return s, err
	}
	dst := filepath.Join(p.o.Dir, "compacted.db")
	if err := p.app.Ledger().Compact(dst); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.Remove(dst)) }()
	copied, err := bolt.Open(dst, bolt.Options{Sync: time.Second, Retention: retention})
	if err != nil {
		return s, err
	}
	s.compacted, err = copied.Backup(io.Discard)
	return s, errors.Join(err, copied.Close())
}

// each calls f for 0..n-1, from so many workers at once.
func each(ctx context.Context, n, workers int, f func(ctx context.Context, worker, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for w := range workers {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(ctx, w, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
