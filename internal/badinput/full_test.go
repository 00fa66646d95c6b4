package badinput

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// shop is the tools: it counts what each call's key asked it.
type shop struct {
	*httptest.Server
	mu   sync.Mutex     // guards asks
	asks map[string]int // by path and downstream key
}

func newShop(t *testing.T) *shop {
	s := &shop{asks: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asks[r.URL.Path+" "+r.Header.Get(schemas.HeaderKey)]++
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"done":true}`)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) of(path, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks[path+" "+key]
}

// total is how often any tool was asked.
func (s *shop) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asks {
		n += asked
	}
	return n
}

// agent publishes calls and remembers which were accepted.
type agent struct {
	t        *testing.T
	nc       *nats.Conn
	js       jetstream.JetStream
	accepted map[int]bool // calls the server acknowledged
	refused  int

	mu  sync.Mutex                 // guards ids
	ids map[string]map[string]bool // outcomes by call, as they went by
}

func newAgent(t *testing.T, url string) *agent {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, nc: nc, js: js, accepted: map[int]bool{}, ids: map[string]map[string]bool{}}
	if _, err := nc.Subscribe("tollgate.results.>", func(m *nats.Msg) {
		if o, err := readOutcome(m.Data); err == nil && o.Status != schemas.Rejected {
			a.note(o)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return a
}

func readOutcome(b []byte) (*schemas.Outcome, error) {
	var o schemas.Outcome
	err := json.Unmarshal(b, &o)
	return &o, err
}

func (a *agent) note(o *schemas.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids[o.Call] == nil {
		a.ids[o.Call] = map[string]bool{}
	}
	a.ids[o.Call][o.ID] = true
}

// outcomes is how many different ones a call had.
func (a *agent) outcomes(call string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ids[call])
}

// tool alternates: every other call must not be repeated.
func tool(i int) (name, path string) {
	if i%2 == 0 {
		return "work.read", "/read"
	}
	return "work.once", "/once"
}

func callOf(i int) string {
	name, _ := tool(i)
	return dedupe.CallID("default", "full", name, fmt.Sprint("k", i))
}

// publish asks for the calls of a range and notes the server's answers, until it has
// refused three.
func (a *agent) publish(from, to int) {
	a.t.Helper()
	a.refused = 0
	for i := from; i < to && a.refused < 3; i++ {
		name, _ := tool(i)
		m := nats.NewMsg("tollgate.calls.default." + name)
		m.Data = fmt.Appendf(nil, `{"n":%d}`, i)
		m.Header.Set(schemas.HeaderRun, "full")
		m.Header.Set(schemas.HeaderKey, fmt.Sprint("k", i))
		m.Header.Set(schemas.HeaderDeadline, time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339))
		ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Second)
		_, err := a.js.PublishMsg(ctx, m)
		cancel()
		if err != nil {
			a.refused++
			continue
		}
		a.accepted[i] = true
	}
}

// outcome is what is stored of a call, or nil.
func (a *agent) outcome(i int) *schemas.Outcome {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Second)
	defer cancel()
	st, err := a.js.Stream(ctx, "TOLLGATE_RESULTS")
	if err != nil {
		return nil
	}
	m, err := st.GetLastMsgForSubject(ctx, "tollgate.results.default.full."+callOf(i))
	if err != nil {
		return nil
	}
	o, err := readOutcome(m.Data)
	if err != nil {
		a.t.Fatal(err)
	}
	a.note(o)
	return o
}

// settled fails unless every accepted call has its one outcome, nothing that must not
// ran twice, and the program itself finds nothing wrong.
func (a *agent) settled(p *program, s *shop, calls int) {
	a.t.Helper()
	for i := range calls {
		var o *schemas.Outcome
		if a.accepted[i] {
			p.await(time.Minute, fmt.Sprint("the outcome of call ", i), func() bool { o = a.outcome(i); return o != nil })
		}
		name, path := tool(i)
		ran, outcomes := s.of(path, callOf(i)), a.outcomes(callOf(i))
		if name == "work.once" && ran > 1 || outcomes > 1 {
			a.t.Errorf("call %d of %s ran %d times and has %d outcomes", i, name, ran, outcomes)
		}
		switch {
		case o == nil:
		case o.Status == schemas.Succeeded && ran == 0:
			a.t.Errorf("call %d succeeded and never ran", i)
		case o.Status != schemas.Succeeded && o.Status != schemas.UnknownOutcome:
			a.t.Errorf("call %d ended %s %s", i, o.Status, o.Code())
		}
	}
	if out, exit := p.tollgate("verify"); exit != 0 {
		a.t.Errorf("verify: %s", out)
	}
}

// The disk of both the ledger and the store is full in the middle of the work. The
// server's store does not come back by itself, so the program ends and says what to
// do; a start before there is room says so too; after it nothing is lost.
func TestDiskFullUnderLoad(t *testing.T) {
	onItsOwnMounts(t, func(t *testing.T) {
		d, s := newDisk(t, "64m"), newShop(t)
		p := newProgram(t, d.dir+"/ledger.db", d.dir+"/nats", s.URL)
		p.start()
		a := newAgent(t, p.url)
		a.publish(0, 60)
		full := make(chan bool)
		go func() { // in the middle of what comes next
			defer close(full)
			d.fill()
		}()
		a.publish(60, 200)
		<-full
		a.publish(200, 400)
		if a.refused == 0 {
			t.Fatal("nothing was refused on a full disk")
		}
		exit := p.end(2 * time.Minute) // the server may hang, and is given up in its time
		if exit != 1 || !bytes.Contains(p.said(), []byte("make room")) || !bytes.Contains(p.said(), []byte(d.dir)) {
			t.Errorf("exit code %d, and it does not say where to make room: %s", exit, p.said())
		}
		t.Logf("%d accepted, %d refused", len(a.accepted), a.refused)
		p.refuses("", d.dir)
		d.clear()
		p.start()
		a.publish(400, 420)
		a.settled(p, s, 420)
	})
}

// Only the ledger's disk is full: nothing is claimed, so nothing runs, the agents'
// calls wait on the streams, and all of it goes on by itself when there is room.
func TestDiskFullOfTheLedgerAlone(t *testing.T) {
	onItsOwnMounts(t, func(t *testing.T) {
		const calls = 1000 // more than fit what the ledger has written ahead of itself
		d, s := newDisk(t, "16m"), newShop(t)
		p := newProgram(t, d.dir+"/ledger.db", "nats", s.URL)
		p.start()
		a := newAgent(t, p.url)
		a.publish(0, 40)
		d.fill()
		a.publish(40, calls)
		if a.refused != 0 {
			t.Errorf("%d calls were refused, though their stream has room", a.refused)
		}
		p.await(time.Minute, "the program says that its ledger cannot commit", func() bool { return bytes.Contains(p.said(), []byte("no space left")) })
		ran := s.total()
		time.Sleep(time.Second)
		if more := s.total() - ran; more != 0 {
			t.Errorf("%d tools ran that no ledger knows", more)
		}
		if out, _ := p.tollgate("status"); !strings.Contains(out, "NOT READY") {
			t.Errorf("it does not say that it is not ready: %s", out)
		}
		d.clear()
		a.settled(p, s, calls)
	})
}

// A disk that is full already: the program says so, and where; with room it starts.
func TestStartOnAFullDisk(t *testing.T) {
	onItsOwnMounts(t, func(t *testing.T) {
		d, s := newDisk(t, "64m"), newShop(t)
		d.fill()
		p := newProgram(t, d.dir+"/ledger.db", "nats", s.URL)
		p.refuses("no space left", d.dir+"/ledger.db")
		p = newProgram(t, "ledger.db", d.dir+"/nats", s.URL)
		p.refuses("no space left", d.dir)
		d.clear()
		p.start()
		a := newAgent(t, p.url)
		a.publish(0, 4)
		a.settled(p, s, 4)
	})
}

// The streams do not fit the disk, however empty it is: the error says what to do.
func TestStartOnASmallDisk(t *testing.T) {
	onItsOwnMounts(t, func(t *testing.T) {
		d, s := newDisk(t, "64m"), newShop(t)
		p := newProgram(t, "ledger.db", d.dir+"/nats", s.URL)
		path := filepath.Join(p.dir, "tollgate.yaml")
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(text, []byte(", max_store: 8GiB"), nil, 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.refuses("insufficient storage", "max_store")
	})
}
