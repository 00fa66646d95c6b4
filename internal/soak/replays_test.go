package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/replays"
	"tollgate/schemas"
)

// The real program carries out a bulk replay: it pauses within a second, is killed in
// the middle, goes on by itself, and has replayed each letter exactly once.
func TestABulkReplayIsKilledInItsMiddle(t *testing.T) { bulk(t, 400, 200, 3*time.Minute) }

// provider is the tool of the bulk replay: it refuses everything until it is well.
type provider struct {
	well atomic.Bool
	mu   sync.Mutex
	seen map[string]int // requests of the first replay, by key
	more int            // of any other
}

func (p *provider) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !p.well.Load() {
		http.Error(rw, "closed", http.StatusForbidden)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Header.Get(schemas.HeaderGeneration) == "1" {
		p.seen[r.Header.Get(schemas.HeaderKey)]++
	} else {
		p.more++
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write([]byte(`{"ok":true}`))
}

// bulkWorld is the program, its tool, and whoever watches both.
type bulkWorld struct {
	*testing.T
	ctx     context.Context
	program *program
	tool    *provider
	nc      *nats.Conn
	js      jetstream.JetStream
	ctl     *control.Client
}

func newBulkWorld(t *testing.T, ctx context.Context) *bulkWorld {
	w := &bulkWorld{T: t, ctx: ctx, tool: &provider{seen: map[string]int{}}}
	server := httptest.NewServer(w.tool)
	t.Cleanup(server.Close)
	w.program = newProgram(t, server.URL)
	widen(t, w.program)
	if err := w.program.start(ctx); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.nc, err = nats.Connect(w.program.url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.nc.Close)
	if w.js, err = jetstream.New(w.nc); err != nil {
		t.Fatal(err)
	}
	subjects, _ := schemas.NewSubjects("")
	w.ctl = &control.Client{NATS: w.nc, Subjects: subjects, By: "soak"}
	return w
}

// slots are the tool's: enough that not the tool is what keeps a replay from its rate.
const slots = 64

// widen gives the tools more slots.
func widen(t *testing.T, p *program) {
	path := filepath.Join(p.dir, "tollgate.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "concurrency: 8", fmt.Sprintf("concurrency: %d", slots))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// die makes n dead letters.
func (w *bulkWorld) die(n int) {
	w.Helper()
	for i := range n {
		m := nats.NewMsg("tollgate.calls.default.demo.pay")
		m.Data = []byte(`{}`)
		m.Header.Set(schemas.HeaderRun, "run-"+strconv.Itoa(i/40))
		m.Header.Set(schemas.HeaderKey, "k"+strconv.Itoa(i))
		m.Header.Set(schemas.HeaderDeadline, time.Now().Add(9*time.Minute).UTC().Format(time.RFC3339Nano))
		if _, err := w.js.PublishMsgAsync(m); err != nil {
			w.Fatal(err)
		}
		if i%1000 == 999 {
			<-w.js.PublishAsyncComplete()
		}
	}
	w.until("every call is dead", func() bool { return w.messages("TOLLGATE_DLQ", "tollgate.dlq.>") == n })
	empty(w.T, w.js, "TOLLGATE_CALLS")
}

func (w *bulkWorld) until(what string, ok func() bool) {
	w.Helper()
	for !ok() {
		if w.ctx.Err() != nil {
			w.Fatalf("%s: %v", what, context.Cause(w.ctx))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *bulkWorld) messages(stream, subject string) (n int) {
	w.Helper()
	st, err := w.js.Stream(w.ctx, stream)
	if err != nil {
		w.Fatal(err)
	}
	info, err := st.Info(w.ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		w.Fatal(err)
	}
	for _, of := range info.State.Subjects {
		n += int(of)
	}
	return n
}

func (w *bulkWorld) ask(verb string, q, out any) {
	w.Helper()
	if err := w.ctl.Ask(w.ctx, verb, q, out); err != nil {
		w.Fatalf("%s: %v", verb, err)
	}
}

func (w *bulkWorld) show(name string) (b dedupe.Replay) {
	w.Helper()
	w.ask(control.VerbReplayShow, control.ReplayName{Name: name}, &b)
	return b
}

func (w *bulkWorld) replayed(name string, n int) {
	w.Helper()
	w.until(fmt.Sprintf("%d letters are replayed", n), func() bool { return w.show(name).Tally.Replayed >= n })
}

// items are the letters of a replay, in order.
func (w *bulkWorld) items(name string) (all []dedupe.ReplayItem) {
	w.Helper()
	for from := 0; ; {
		var page replays.Items
		w.ask(control.VerbReplayItems, control.ReplayName{Name: name, From: from}, &page)
		all = append(all, page.Items...)
		if from = page.Next; from == 0 {
			return all
		}
	}
}

// bulk replays n letters at a rate, with a pause at a third and a kill at two thirds.
// It returns the rates that were kept in the three parts.
func bulk(t *testing.T, n int, rate float64, within time.Duration) (parts [3]float64) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), within, context.DeadlineExceeded)
	defer cancel()
	w := newBulkWorld(t, ctx)
	w.die(n)
	w.tool.well.Store(true)

	var b dedupe.Replay
	w.ask(control.VerbReplaysCreate, replays.Query{Name: "outage", Rate: rate}, &b)
	w.replayed("outage", n/3)
	asked := time.Now()
	w.ask(control.VerbReplayPause, control.ReplayName{Name: "outage"}, &b)
	time.Sleep(time.Until(asked.Add(time.Second)))
	paused := w.show("outage").Tally.Replayed
	time.Sleep(time.Second)
	if again := w.show("outage").Tally.Replayed; again != paused {
		t.Errorf("%d letters were replayed when it had been paused for a second, and then %d more", paused, again-paused)
	}
	w.ask(control.VerbReplayResume, control.ReplayName{Name: "outage"}, &b)
	w.replayed("outage", 2*n/3)
	w.program.kill()
	killed := time.Now()
	if err := w.program.start(ctx); err != nil {
		t.Fatal(err)
	}
	w.until("the connection is back", w.nc.IsConnected)
	w.done("outage")
	w.once("outage", n)
	return w.rates(w.items("outage"), asked, killed)
}

// done waits for the end of a replay. When it does not come, what is missing is told.
func (w *bulkWorld) done(name string) {
	w.Helper()
	var b dedupe.Replay
	ctx := w.ctx
	for ctx.Err() == nil {
		if w.ctl.Ask(ctx, control.VerbReplayShow, control.ReplayName{Name: name}, &b) == nil && b.State == dedupe.ReplayDone {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	later := context.WithoutCancel(ctx)
	var status, waiting json.RawMessage
	err := errors.Join(w.ctl.Ask(later, control.VerbStatus, control.Empty{}, &status), w.ctl.Ask(later, control.VerbCallsList, control.CallsQuery{State: "waiting"}, &waiting))
	w.Fatalf("the replay does not end: %+v\nstatus %s\nwaiting calls %s\n%v", b, status, waiting, err)
}

// once fails unless each letter was replayed exactly once: by what the replay tells, by
// the audit, by the calls' generations, and by what the tool saw.
func (w *bulkWorld) once(name string, n int) {
	w.Helper()
	if b := w.show(name); b.Tally != (dedupe.ReplayTally{Replayed: n, Succeeded: n}) || b.SkippedCount() != 0 {
		w.Errorf("%+v", b)
	}
	w.until("the audit is published", func() bool {
		var s control.Status
		return w.ctl.Ask(w.ctx, control.VerbStatus, control.Empty{}, &s) == nil && s.Owed == 0
	})
	if audited := w.messages("TOLLGATE_AUDIT", "tollgate.audit.default.replay"); audited != n {
		w.Errorf("%d replays in the audit, want %d", audited, n)
	}
	if letters := w.messages("TOLLGATE_DLQ", "tollgate.dlq.>"); letters != n {
		w.Errorf("%d letters in the stream, want %d", letters, n)
	}
	w.tool.mu.Lock()
	defer w.tool.mu.Unlock()
	requests := w.tool.more
	for _, of := range w.tool.seen {
		requests += of
	}
	// An attempt that the kill cut off is made again, with its key.
	if w.tool.more != 0 || len(w.tool.seen) != n || requests > n+slots {
		w.Errorf("the tool saw %d keys and %d requests, %d of other generations; want %d", len(w.tool.seen), requests, w.tool.more, n)
	}
	var report control.VerifyReport
	if w.ask(control.VerbVerify, control.Empty{}, &report); !report.OK {
		w.Errorf("verify: %+v", report.Checks)
	}
}

// rates are how fast letters were replayed before the pause, until the kill, and after it.
func (w *bulkWorld) rates(items []dedupe.ReplayItem, paused, killed time.Time) (parts [3]float64) {
	var first, last [3]time.Time
	var count [3]int
	for _, i := range items {
		part := 0
		switch {
		case i.At.After(killed):
			part = 2
		case i.At.After(paused.Add(100 * time.Millisecond)):
			part = 1
		}
		if count[part]++; first[part].IsZero() || i.At.Before(first[part]) {
			first[part] = i.At
		}
		if i.At.After(last[part]) {
			last[part] = i.At
		}
	}
	var words []string
	for i := range parts {
		parts[i] = float64(count[i]-1) / last[i].Sub(first[i]).Seconds()
		words = append(words, fmt.Sprintf("%d at %.1f/s", count[i], parts[i]))
	}
	w.Logf("replayed %s", strings.Join(words, ", "))
	return parts
}
