package owner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/internal/natstest"
	"tollgate/internal/owner"
)

const ttl = 15 * time.Second

// on runs f with a real server in virtual time.
func on(t *testing.T, f func(t *testing.T, n *natstest.Node, js jetstream.JetStream)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T) {
		n := natstest.Server(t, t.TempDir())
		f(t, n, natstest.JetStream(t, n))
	})
}

func acquire(t *testing.T, js jetstream.JetStream, id string, epoch uint64, o owner.Options) *owner.Term {
	t.Helper()
	term, err := owner.Acquire(t.Context(), js, id, epoch, o)
	if err != nil {
		t.Fatal(err)
	}
	if !term.Valid() {
		t.Fatal("a term just acquired is not valid")
	}
	return term
}

// run renews the term in the background; stop ends it and returns its error.
func run(t *testing.T, term *owner.Term) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- term.Run(ctx) }()
	return func() error { cancel(); return <-done }
}

func stored(t *testing.T, js jetstream.JetStream) (owner.Holder, jetstream.KeyValue) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), owner.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(t.Context(), "ledger")
	if err != nil {
		t.Fatal(err)
	}
	var h owner.Holder
	if err := json.Unmarshal(e.Value(), &h); err != nil {
		t.Fatal(err)
	}
	return h, kv
}

// Who may start beside, after or instead of whom.
func TestAcquire(t *testing.T) {
	for _, tc := range []struct {
		name     string
		idle     time.Duration // since the last renewal of ledger A, start 5
		released bool
		id       string
		epoch    uint64
		o        owner.Options
		want     owner.Cause // 0: it starts
	}{
		{name: "restart after kill -9, at once", id: "A", epoch: 6, o: owner.Options{File: "here"}},
		{name: "a newer copy beside a live one", id: "A", epoch: 6, o: owner.Options{File: "there"}, want: owner.Held},
		{name: "a newer copy that cannot say what it is", id: "A", epoch: 6, want: owner.Held},
		{name: "a newer copy once the term is over", idle: ttl, id: "A", epoch: 6, o: owner.Options{File: "there"}},
		{name: "restart after a long time", idle: time.Hour, id: "A", epoch: 6},
		{name: "restart after an orderly stop", released: true, id: "A", epoch: 6},
		{name: "another ledger beside a live one", id: "B", epoch: 1, want: owner.Held},
		{name: "a new ledger beside a live one", id: "B", epoch: 1, o: owner.Options{Fresh: true}, want: owner.Held},
		{name: "an old copy beside a live one", id: "A", epoch: 5, want: owner.Held},
		{name: "recovering beside a live one", id: "B", epoch: 1, o: owner.Options{Recover: true}, want: owner.Held},
		{name: "the term is over just now", idle: ttl, id: "B", epoch: 9, want: owner.Foreign},
		{name: "the term is nearly over", idle: ttl - time.Second, id: "B", epoch: 9, want: owner.Held},
		{name: "foreign file, even with a higher epoch", released: true, id: "B", epoch: 9, want: owner.Foreign},
		{name: "restored old copy", released: true, id: "A", epoch: 4, want: owner.Behind},
		{name: "copy of the same start", released: true, id: "A", epoch: 5, want: owner.Behind},
		{name: "the file is gone", released: true, id: "C", epoch: 1, o: owner.Options{Fresh: true}, want: owner.Missing},
		{name: "recover a foreign file", released: true, id: "B", epoch: 2, o: owner.Options{Recover: true}},
		{name: "recover an old copy", idle: ttl, id: "A", epoch: 3, o: owner.Options{Recover: true}},
		{name: "recover from nothing", released: true, id: "C", epoch: 1, o: owner.Options{Recover: true, Fresh: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			on(t, func(t *testing.T, _ *natstest.Node, js jetstream.JetStream) {
				first := acquire(t, js, "A", 5, owner.Options{File: "here", Fresh: true, TTL: ttl})
				if tc.released {
					if err := first.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(tc.idle)
				tc.o.TTL = ttl
				began := time.Now()
				term, err := owner.Acquire(t.Context(), js, tc.id, tc.epoch, tc.o)
				if waited := time.Since(began); waited > 100*time.Millisecond {
					t.Errorf("decided after %v, want at once", waited)
				}
				if tc.want == 0 {
					if err != nil {
						t.Fatal(err)
					}
					if h, _ := stored(t, js); h.Epoch != tc.epoch || h.LedgerID != tc.id || h.Instance != term.Instance() || h.Released {
						t.Errorf("stored %+v, want ledger %s at %d", h, tc.id, tc.epoch)
					}
					return
				}
				var no *owner.Refused
				if !errors.As(err, &no) || no.Cause != tc.want {
					t.Fatalf("got %v, want refused as %v", err, tc.want)
				}
				if !strings.Contains(err.Error(), first.Instance()) || !strings.Contains(err.Error(), "ledger A") {
					t.Errorf("error %q does not say who holds which ledger", err)
				}
				if h, _ := stored(t, js); h.Instance != first.Instance() {
					t.Errorf("a refused start changed the key to %+v", h)
				}
			})
		})
	}
}

// A term that is renewed stays valid, and holds others off, for ever.
func TestRunRenews(t *testing.T) {
	on(t, func(t *testing.T, _ *natstest.Node, js jetstream.JetStream) {
		term := acquire(t, js, "A", 1, owner.Options{Fresh: true, TTL: ttl})
		stop := run(t, term)
		for range 20 {
			time.Sleep(ttl)
			if !term.Valid() {
				t.Fatal("a renewed term is not valid")
			}
			var no *owner.Refused
			if _, err := owner.Acquire(t.Context(), js, "B", 1, owner.Options{Recover: true}); !errors.As(err, &no) || no.Cause != owner.Held {
				t.Fatalf("got %v, want held", err)
			}
		}
		if err := stop(); err != nil {
			t.Errorf("an orderly stop: %v", err)
		}
		for range 2 {
			if err := term.Release(t.Context()); err != nil {
				t.Errorf("release: %v", err)
			}
		}
		if term.Valid() {
			t.Error("a released term is valid")
		}
		if h, _ := stored(t, js); !h.Released {
			t.Error("the key does not say released")
		}
	})
}

// Without renewal a term is valid for less than half its TTL, so it is over well
// before anybody else may start.
func TestValidEndsAtHalfTheTTL(t *testing.T) {
	on(t, func(t *testing.T, _ *natstest.Node, js jetstream.JetStream) {
		term := acquire(t, js, "A", 1, owner.Options{Fresh: true, TTL: ttl})
		time.Sleep(ttl/2 - time.Second)
		if !term.Valid() {
			t.Error("not valid a second before half the TTL")
		}
		time.Sleep(time.Second)
		if term.Valid() {
			t.Error("valid at half the TTL")
		}
	})
}

// The old holder finds out, stops, and its late release does not touch the key.
func TestTakenOver(t *testing.T) {
	on(t, func(t *testing.T, _ *natstest.Node, js jetstream.JetStream) {
		old := acquire(t, js, "A", 1, owner.Options{File: "here", Fresh: true, TTL: ttl})
		acquire(t, js, "A", 2, owner.Options{File: "here", TTL: ttl})
		began := time.Now()
		err := old.Run(t.Context())
		if !errors.Is(err, owner.ErrLost) || !strings.Contains(err.Error(), "start 2") {
			t.Fatalf("got %v, want lost to start 2", err)
		}
		if took := time.Since(began); took > ttl/2 {
			t.Errorf("noticed after %v, want within half the TTL", took)
		}
		if old.Valid() {
			t.Error("a lost term is valid")
		}
		if err := old.Release(t.Context()); err != nil {
			t.Errorf("release of a lost term: %v", err)
		}
		if h, _ := stored(t, js); h.Epoch != 2 || h.Released {
			t.Errorf("the loser changed the key to %+v", h)
		}
	})
}

func TestKeyRemovedIsLost(t *testing.T) {
	on(t, func(t *testing.T, _ *natstest.Node, js jetstream.JetStream) {
		term := acquire(t, js, "A", 1, owner.Options{Fresh: true, TTL: ttl})
		_, kv := stored(t, js)
		if err := kv.Delete(t.Context(), "ledger"); err != nil {
			t.Fatal(err)
		}
		if err := term.Run(t.Context()); !errors.Is(err, owner.ErrLost) {
			t.Errorf("got %v, want lost", err)
		}
	})
}

// An outage makes the term invalid and does not lose it; a renewal whose reply was
// lost is recognised as our own.
func TestOutageAndLostReply(t *testing.T) {
	on(t, func(t *testing.T, n *natstest.Node, js jetstream.JetStream) {
		term := acquire(t, js, "A", 1, owner.Options{Fresh: true, TTL: ttl})
		stop := run(t, term)
		n.Stop()
		time.Sleep(ttl)
		if term.Valid() {
			t.Error("valid after an outage of a whole TTL")
		}
		n.Start(t)
		time.Sleep(ttl)
		if !term.Valid() {
			t.Error("not valid again after the outage")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	for write := 1; write <= 3; write++ {
		on(t, func(t *testing.T, n *natstest.Node, _ jetstream.JetStream) {
			fault := &natstest.CutOn{Provider: n, Match: natstest.Publishes("$KV." + owner.Bucket), N: write + 1, Kind: natstest.AfterWrite}
			term := acquire(t, natstest.JetStream(t, fault), "A", 1, owner.Options{Fresh: true, TTL: ttl})
			stop := run(t, term)
			time.Sleep(5 * ttl)
			if !fault.Fired() || !term.Valid() {
				t.Errorf("fault fired: %t, term valid after it: %t; want both", fault.Fired(), term.Valid())
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A key that is missing while the file has a history is a warning, not a refusal.
func TestMissingKeyWarns(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		on(t, func(t *testing.T, _ *natstest.Node, js jetstream.JetStream) {
			var log strings.Builder
			acquire(t, js, "A", 7, owner.Options{Fresh: fresh, Log: zerolog.New(&log)})
			if warned := strings.Contains(log.String(), `"level":"warn"`); warned == fresh {
				t.Errorf("fresh %t: warned %t\n%s", fresh, warned, log.String())
			}
		})
	}
}

// Two that start at once on a key nobody holds: exactly one gets it.
func TestRace(t *testing.T) {
	on(t, func(t *testing.T, n *natstest.Node, _ jetstream.JetStream) {
		const racers = 8
		errs := make(chan error, racers)
		for i := range racers {
			js := natstest.JetStream(t, n)
			go func() {
				_, err := owner.Acquire(t.Context(), js, string(rune('A'+i)), 1, owner.Options{Fresh: true, TTL: ttl})
				errs <- err
			}()
		}
		won := 0
		for range racers {
			var no *owner.Refused
			switch err := <-errs; {
			case err == nil:
				won++
			case !errors.As(err, &no) || no.Cause != owner.Held:
				t.Errorf("a loser got %v, want held", err)
			}
		}
		if won != 1 {
			t.Errorf("%d won, want 1", won)
		}
	})
}

func TestAcquireRefusesNonsense(t *testing.T) {
	on(t, func(t *testing.T, _ *natstest.Node, js jetstream.JetStream) {
		for _, tc := range []struct {
			id    string
			epoch uint64
			ttl   time.Duration
		}{{"", 1, 0}, {"A", 0, 0}, {"A", 1, -1}} {
			if _, err := owner.Acquire(t.Context(), js, tc.id, tc.epoch, owner.Options{TTL: tc.ttl}); err == nil {
				t.Errorf("%+v was accepted", tc)
			}
		}
	})
}

// After a recovery the recovered file is the true one: its next start is an
// ordinary one, and the file it replaced is foreign.
func TestRecoveredFileIsTheTrueOne(t *testing.T) {
	on(t, func(t *testing.T, _ *natstest.Node, js jetstream.JetStream) {
		first := acquire(t, js, "A", 50, owner.Options{Fresh: true, TTL: ttl})
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		acquire(t, js, "B", 1, owner.Options{File: "b", TTL: ttl, Recover: true, Fresh: true})
		second := acquire(t, js, "B", 2, owner.Options{File: "b", TTL: ttl})
		if err := second.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var no *owner.Refused
		if _, err := owner.Acquire(t.Context(), js, "A", 51, owner.Options{TTL: ttl}); !errors.As(err, &no) || no.Cause != owner.Foreign {
			t.Errorf("the replaced file: %v, want foreign", err)
		}
	})
}
