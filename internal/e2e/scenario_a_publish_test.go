package e2e

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B12: the server stored a retry, and its confirmation was lost.
func TestB12ALostPubAckOfARetryMakesNoSecondCopy(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Busy(20*time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		cut := w.Cut("tollgate.sched.", 1, natstest.AfterWrite)
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		w.Until(45*time.Second, "the original is settled", func() bool { // the ack wait, if the broken connection took its settlement too
			original, copies := w.Messages("TOLLGATE_CALLS"), w.Messages("TOLLGATE_RETRY")
			if copies > 1 || copies+original == 0 && s.N() < 2 {
				t.Fatalf("%d copies, %d originals", copies, original)
			}
			return original == 0
		})
		o := w.Outcome(m, 30*time.Second)
		w.Drained(5 * time.Second)
		time.Sleep(time.Minute)
		if !cut.Fired() || s.N() != 2 || o.Status != schemas.Succeeded {
			t.Errorf("fault %t, %s after %d executions", cut.Fired(), o.Status, s.N())
		}
		w.Charged("r", 2, 0)
		w.Verify()
	})
}

// B12: the same of a dead letter. "Already there" is success.
func TestB12ALostPubAckOfALetterMakesNoSecondLetter(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Broken())}, func(t *testing.T, w *worldtest.World) {
		cut := w.Cut("tollgate.dlq.", 1, natstest.AfterWrite)
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		w.Until(40*time.Second, "the original is settled", func() bool { return w.Messages("TOLLGATE_CALLS") == 0 })
		w.Until(time.Second, "nothing is owed", func() bool { return worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}).Owed == 0 })
		if !cut.Fired() || s.N() != 1 || w.Messages("TOLLGATE_DLQ") != 1 {
			t.Errorf("fault %t, %d executions, %d letters", cut.Fired(), s.N(), w.Messages("TOLLGATE_DLQ"))
		}
		w.Verify()
	})
}

// B13: retries inside the duplicate window are deliveries of their own, whatever
// message ID the agent used.
func TestB13EveryRetryIsDelivered(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Busy(time.Second), worldtest.Busy(2*time.Second), worldtest.Busy(4*time.Second), nil)}, func(t *testing.T, w *worldtest.World) {
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Deadline: time.Hour, Header: map[string]string{schemas.HeaderMessageID: "one-publish"}}
		w.Publish(m)
		w.Publish(m) // the network's repeat of it is swallowed by the window
		o := w.Outcome(m, time.Minute)
		if o.Status != schemas.Succeeded || len(o.Attempts) != 4 || s.N() != 4 {
			t.Errorf("%s after %d executions", o.Status, s.N())
		}
		for i, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if gap := s.At[i+1].Sub(s.At[i]); gap < least || gap > least*6/5+300*time.Millisecond {
				t.Errorf("wait %d was %s, stated %s", i+1, gap, least)
			}
		}
		first, retries := w.Consumer("TOLLGATE_CALLS", "calls-look=2Eup"), w.Consumer("TOLLGATE_RETRY", "calls-look=2Eup")
		if first.Delivered.Consumer != 1 || retries.Delivered.Consumer != 3 {
			t.Errorf("delivered %d times first and %d times again", first.Delivered.Consumer, retries.Delivered.Consumer)
		}
		w.Charged("r", 4, 0)
		if p := w.Letters(deadletter.Filter{State: "all"}); p.Total != 0 {
			t.Errorf("letters: %+v", p)
		}
	})
}

// B19: the dead-letter stream is gone. The verdict is kept, the message stays, and
// the letter is written once the stream is there again.
func TestB19ALetterThatCannotBeStoredHoldsTheMessage(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Broken())}, func(t *testing.T, w *worldtest.World) {
		ctx := context.Background()
		st, err := w.JS.Stream(ctx, "TOLLGATE_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		config := st.CachedInfo().Config
		if err := w.JS.DeleteStream(ctx, "TOLLGATE_DLQ"); err != nil {
			t.Fatal(err)
		}
		m := worldtest.Msg{Tool: "send.mail", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		for range 30 {
			time.Sleep(time.Second)
			if w.Messages("TOLLGATE_CALLS") != 1 || s.N() != 1 {
				t.Fatalf("without the stream: %d messages, %d executions", w.Messages("TOLLGATE_CALLS"), s.N())
			}
		}
		var status control.Status
		if err := w.Ctl.Ask(ctx, control.VerbStatus, control.Empty{}, &status); err != nil {
			t.Errorf("status does not work without the stream: %v", err)
		}
		if status.Ready || status.Owed != 1 {
			t.Errorf("status: ready %t, %d owed", status.Ready, status.Owed)
		}
		if _, err := w.JS.CreateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		w.Drained(35 * time.Second)
		p := w.Letters(deadletter.Filter{})
		if p.Total != 1 || p.Letters[0].Call != worldtest.CallID(m) || w.Messages("TOLLGATE_DLQ") != 1 || s.N() != 1 {
			t.Errorf("letters %+v, %d executions", p, s.N())
		}
		w.Charged("r", 1, 1)
		w.Verify()
	})
}

// alarm collects the log.
type alarm struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (a *alarm) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.Write(p)
}

func (a *alarm) has(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Contains(a.buf.String(), text)
}

// B20: a full dead-letter stream refuses; nothing is dropped on either side.
func TestB20AFullDeadLetterStreamLosesNothing(t *testing.T) {
	var s worldtest.Seen
	var log alarm
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(worldtest.Broken())}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() { w.Log = &log })
		ctx := context.Background()
		st, err := w.JS.Stream(ctx, "TOLLGATE_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		config := st.CachedInfo().Config
		config.MaxMsgs = 3
		if _, err := w.JS.UpdateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		var calls []worldtest.Msg
		for _, k := range []string{"1", "2", "3", "4"} {
			calls = append(calls, worldtest.Msg{Tool: "look.up", Run: "r", Key: k, Deadline: time.Hour})
		}
		for _, m := range calls[:3] {
			w.Publish(m)
		}
		w.Drained(10 * time.Second)
		w.Publish(calls[3])
		time.Sleep(20 * time.Second)
		if w.Messages("TOLLGATE_CALLS") != 1 || w.Messages("TOLLGATE_DLQ") != 3 || s.Of(calls[3]) != 1 {
			t.Errorf("full: %d messages stay, %d letters, %d executions", w.Messages("TOLLGATE_CALLS"), w.Messages("TOLLGATE_DLQ"), s.Of(calls[3]))
		}
		for _, m := range calls[:3] {
			w.Letter(worldtest.CallID(m)) // fails the test if the oldest made room
		}
		if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Owed != 1 || !log.has("maximum messages exceeded") {
			t.Errorf("no alarm: %d owed, log %q", st.Owed, log.buf.String())
		}
		config.MaxMsgs = -1
		if _, err := w.JS.UpdateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		w.Drained(20 * time.Second)
		if p := w.Letters(deadletter.Filter{}); p.Total != 4 || s.N() != 4 {
			t.Errorf("%d letters, %d executions", p.Total, s.N())
		}
		w.Verify()
	})
}

// B20: a stream that would drop letters by itself is put right at the start.
func TestB20ADroppingDeadLetterStreamIsPutRight(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, writeAndRead, map[string]function.Func{"tool": s.Script(nil)}, func(t *testing.T, w *worldtest.World) {
		ctx := context.Background()
		w.Again(func() {
			if err := w.JS.DeleteStream(ctx, "TOLLGATE_DLQ"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.JS.CreateStream(ctx, jetstream.StreamConfig{Name: "TOLLGATE_DLQ", Subjects: []string{"tollgate.dlq.>"},
				Discard: jetstream.DiscardOld, MaxMsgs: 3, MaxAge: time.Hour}); err != nil {
				t.Fatal(err)
			}
		})
		st, err := w.JS.Stream(ctx, "TOLLGATE_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		if c := st.CachedInfo().Config; c.Discard != jetstream.DiscardNew || c.MaxAge != 0 || c.MaxMsgs > 0 {
			t.Errorf("after the start: discard %v, max age %s, max messages %d", c.Discard, c.MaxAge, c.MaxMsgs)
		}
	})
}
