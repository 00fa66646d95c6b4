package natstest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/internal/natstest"
)

func stream(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	s, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func count(t *testing.T, s jetstream.Stream) uint64 {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

// A redelivery comes exactly when AckWait is over, in virtual time.
func TestBubbleRunsAckWaitInVirtualTime(t *testing.T) {
	began := time.Now()
	natstest.Bubble(t, func(t *testing.T) {
		js := natstest.JetStream(t, natstest.Server(t, t.TempDir()))
		s := stream(t, js)
		if _, err := js.Publish(t.Context(), "s.a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		c, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for n := range 2 {
			m, err := c.Next(jetstream.FetchMaxWait(2 * time.Hour))
			if err != nil {
				t.Fatalf("delivery %d: %v", n+1, err)
			}
			if meta, _ := m.Metadata(); meta.NumDelivered != uint64(n+1) {
				t.Errorf("delivery %d says %d", n+1, meta.NumDelivered)
			}
		}
		if gap := time.Since(start); gap < time.Hour || gap > time.Hour+10*time.Millisecond {
			t.Errorf("redelivered after %v, want 1h", gap)
		}
	})
	if real := time.Since(began); real > time.Minute {
		t.Errorf("an hour of virtual time took %v", real)
	}
}

// What was stored is there after a restart, and old clients find the new server.
func TestRestartKeepsStreamsAndClients(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		n := natstest.Server(t, t.TempDir(), func(o *server.Options) { o.SyncAlways = true })
		js := natstest.JetStream(t, n)
		s := stream(t, js)
		if _, err := js.Publish(t.Context(), "s.a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		n.Restart(t, 10*time.Second)
		time.Sleep(time.Second)
		if got := count(t, s); got != 1 {
			t.Errorf("%d messages after the restart, want 1", got)
		}
		n.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := js.Publish(ctx, "s.a", nil); err == nil {
			t.Error("published to a stopped server")
		}
		if n.Server() != nil {
			t.Error("a stopped node still has a server")
		}
	})
}

// Cut before the write, nothing is stored; cut after it, the message is stored and
// only the reply is lost. Both look the same to the client.
func TestCutOnLosesTheWriteOrTheReply(t *testing.T) {
	for _, tc := range []struct {
		name   string
		kind   natstest.Cut
		stored uint64
	}{
		{"before", natstest.BeforeWrite, 1},
		{"after", natstest.AfterWrite, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				n := natstest.Server(t, t.TempDir())
				s := stream(t, natstest.JetStream(t, n))
				fault := &natstest.CutOn{Provider: n, Match: natstest.Publishes("s."), N: 2, Kind: tc.kind}
				js := natstest.JetStream(t, fault)
				if _, err := js.Publish(t.Context(), "s.a", nil); err != nil {
					t.Fatalf("publish before the fault: %v", err)
				}
				if fault.Fired() {
					t.Fatal("fired at the first match, want the second")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := js.Publish(ctx, "s.b", nil); err == nil {
					t.Error("the publish at the fault got its reply")
				}
				if !fault.Fired() {
					t.Error("the fault did not fire")
				}
				if got := count(t, s); got != tc.stored {
					t.Errorf("%d messages stored, want %d", got, tc.stored)
				}
				if _, err := js.Publish(t.Context(), "s.c", nil); err != nil {
					t.Errorf("publish after the reconnect: %v", err)
				}
				if fault.Seen() < 3 {
					t.Errorf("saw %d matching writes, want at least 3", fault.Seen())
				}
			})
		})
	}
}

// A subscription that is being drained when its connection closes does not keep the
// bubble: the client asks every 100 ms whether the connection is still there.
func TestBubbleEndsWithADrainUnderWay(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		nc := natstest.Connect(t, natstest.Server(t, t.TempDir()))
		sub, err := nc.SubscribeSync("a")
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish("a", nil); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil { // the message is pending, so the drain waits
			t.Fatal(err)
		}
		if err := sub.Drain(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	})
}
