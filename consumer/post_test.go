package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/dedupe"
	"tollgate/internal/natstest"
	"tollgate/schemas"
)

// owing is a ledger's side of the outbox: which results are not published yet.
type owing struct {
	mu        sync.Mutex
	records   map[string]*dedupe.Record
	owed      map[uint64]string
	published int
	meanwhile func() // between the look and the answer of Owed
}

func (f *owing) Published(p dedupe.Publication) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.owed, p.Result)
	f.published++
}

func (f *owing) Record(call string) (*dedupe.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.records[call]; r != nil {
		return r.Clone(), nil
	}
	return nil, dedupe.ErrNotFound
}

func (f *owing) Read() uint64 { return 1 }

func (f *owing) Owed() (_, results []*dedupe.Record, _ []dedupe.Audit) {
	f.mu.Lock()
	for n, call := range f.owed {
		if r := f.records[call]; r.Result == n {
			results = append(results, r.Clone())
		}
	}
	f.mu.Unlock()
	if f.meanwhile != nil {
		f.meanwhile()
	}
	return nil, results, nil
}

func (f *owing) settle(r *dedupe.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records[r.Call] = r
	f.owed[r.Result] = r.Call
}

func (f *owing) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.owed)
}

// settled is generation g of a call, whose result has number n.
func settled(call string, g int, n uint64) *dedupe.Record {
	return &dedupe.Record{Call: call, Tenant: "default", Root: "run", Run: "run", Generation: g, Result: n,
		Outcome: &schemas.Outcome{Call: call, Tenant: "default", Run: "run", Generation: g, ID: fmt.Sprint(call, ".", g)}}
}

// office is an outbox on a server of its own, and somebody who hears the results.
type office struct {
	*Outbox
	ledger *owing
	node   *natstest.Node
	js     jetstream.JetStream
	heard  *nats.Subscription
	names  Names
}

func outbox(t *testing.T, limits func(*jetstream.StreamConfig), f func(t *testing.T, o *office)) {
	natstest.Bubble(t, func(t *testing.T) {
		o := &office{ledger: &owing{records: map[string]*dedupe.Record{}, owed: map[uint64]string{}}, node: natstest.Server(t, filepath.Join(t.TempDir(), "nats"))}
		o.js = natstest.JetStream(t, o.node)
		subjects, err := schemas.NewSubjects("")
		if err != nil {
			t.Fatal(err)
		}
		o.names = StreamNames(subjects)
		configs := Streams(subjects, Limits{})
		for i := range configs {
			if configs[i].Name == o.names.Results && limits != nil {
				limits(&configs[i])
			}
		}
		if err := Ensure(t.Context(), o.js, configs); err != nil {
			t.Fatal(err)
		}
		if o.heard, err = natstest.Connect(t, o.node).SubscribeSync("tollgate.results.>"); err != nil {
			t.Fatal(err)
		}
		if o.Outbox, err = NewOutbox(o.js, subjects, o.ledger, nil, zerolog.Nop()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		flush, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { o.Run(ctx, flush) })
		f(t, o)
		cancel()
		end()
		wg.Wait()
	})
}

// I12: a result that is published again never takes the place of a newer one.
func TestI12AnOldResultIsNotPublishedOverANewer(t *testing.T) {
	outbox(t, nil, func(t *testing.T, o *office) {
		first, second := settled("call", 0, 1), settled("call", 1, 2)
		o.ledger.settle(first)
		o.ledger.meanwhile = func() { // the one that was on its way is stored, and the next generation ends
			o.Result(1, "run", first.Outcome)
			time.Sleep(time.Second)
			o.ledger.settle(second)
			o.Result(2, "run", second.Outcome)
		}
		o.Owed(t.Context())
		time.Sleep(2 * time.Second)
		st, err := o.js.Stream(t.Context(), o.names.Results)
		if err != nil {
			t.Fatal(err)
		}
		m, err := st.GetLastMsgForSubject(t.Context(), "tollgate.results.default.run.call")
		if err != nil {
			t.Fatal(err)
		}
		var last schemas.Outcome
		if err := json.Unmarshal(m.Data, &last); err != nil || last.Generation != 1 || o.ledger.left() != 0 {
			t.Errorf("generation %d is stored last, %d are owed (%v)", last.Generation, o.ledger.left(), err)
		}
	})
}

// An answer that is repeated is heard after an outage, and once.
func TestAResultIsHeardOnceAfterAnOutage(t *testing.T) {
	outbox(t, nil, func(t *testing.T, o *office) {
		r := settled("call", 0, 1)
		o.ledger.settle(r)
		o.node.Stop()
		time.Sleep(time.Second)
		o.Result(1, "run", r.Outcome)
		again := *r.Outcome
		again.Repeated = true
		o.Result(0, "run", &again)
		time.Sleep(30 * time.Second)
		o.node.Start(t)
		var got []bool
		for {
			m, err := o.heard.NextMsg(10 * time.Second)
			if err != nil {
				break
			}
			var out schemas.Outcome
			if err := json.Unmarshal(m.Data, &out); err != nil {
				t.Fatal(err)
			}
			got = append(got, out.Repeated)
		}
		if len(got) != 2 || got[0] || !got[1] || o.ledger.left() != 0 {
			t.Errorf("heard %v (repeated or not), %d are owed", got, o.ledger.left())
		}
	})
}

// One result that can never be stored holds up nothing else, however many there are.
func TestI12AResultThatCannotBeStoredHoldsUpNoOther(t *testing.T) {
	outbox(t, nil, func(t *testing.T, o *office) {
		big := settled("big", 0, 1)
		big.Outcome.Content = []schemas.Content{{Type: "text", Text: string(make([]byte, 300_000))}} // NUL is written as six bytes
		o.ledger.settle(big)
		o.Result(1, "run", big.Outcome)
		for n := uint64(2); n < postQueue+500; n++ {
			r := settled(fmt.Sprint("call", n), 0, n)
			o.ledger.settle(r)
			o.Result(n, "run", r.Outcome)
		}
		time.Sleep(20 * time.Second)
		if left := o.ledger.left(); left != 1 {
			t.Errorf("%d results are owed, want the one that does not fit", left)
		}
	})
}

// While the results stream refuses, what waits for it is bounded; then all of it goes out.
func TestRefusedResultsAreNotPiledUp(t *testing.T) {
	full := func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardNew }
	outbox(t, full, func(t *testing.T, o *office) {
		const all = 3 * postQueue
		for n := uint64(1); n <= all; n++ {
			r := settled(fmt.Sprint("call", n), 0, n)
			o.ledger.settle(r)
			o.Result(n, "run", r.Outcome)
			if n%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		o.post.mu.Lock()
		kept := len(o.post.failed) + len(o.post.onWay) + len(o.post.waiting)
		o.post.mu.Unlock()
		if kept > 2*postQueue+postsOut {
			t.Errorf("%d results are kept in memory", kept)
		}
		st, err := o.js.Stream(t.Context(), o.names.Results)
		if err != nil {
			t.Fatal(err)
		}
		c := st.CachedInfo().Config
		c.MaxMsgs = -1
		if _, err := o.js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if left := o.ledger.left(); left != 0 {
			t.Errorf("%d of %d results are still owed", left, all)
		}
	})
}
