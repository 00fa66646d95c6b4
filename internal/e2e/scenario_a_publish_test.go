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
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B12: the server stored a retry, and its confirmation was lost.
func TestB12ALostPubAckOfARetryMakesNoSecondCopy(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(busy(20*time.Second), nil)}, func(t *testing.T, w *world) {
		cut := w.cut("tollgate.sched.", 1, natstest.AfterWrite)
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		w.until(45*time.Second, "the original is settled", func() bool { // the ack wait, if the broken connection took its settlement too
			original, copies := w.messages("TOLLGATE_CALLS"), w.messages("TOLLGATE_RETRY")
			if copies > 1 || copies+original == 0 && s.n() < 2 {
				t.Fatalf("%d copies, %d originals", copies, original)
			}
			return original == 0
		})
		o := w.outcome(m, 30*time.Second)
		w.drained(5 * time.Second)
		time.Sleep(time.Minute)
		if !cut.Fired() || s.n() != 2 || o.Status != schemas.Succeeded {
			t.Errorf("fault %t, %s after %d executions", cut.Fired(), o.Status, s.n())
		}
		w.charged("r", 2, 0)
		w.verify()
	})
}

// B12: the same of a dead letter. "Already there" is success.
func TestB12ALostPubAckOfALetterMakesNoSecondLetter(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(broken())}, func(t *testing.T, w *world) {
		cut := w.cut("tollgate.dlq.", 1, natstest.AfterWrite)
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		w.until(40*time.Second, "the original is settled", func() bool { return w.messages("TOLLGATE_CALLS") == 0 })
		w.until(time.Second, "nothing is owed", func() bool { return ask[control.Status](w, control.VerbStatus, control.Empty{}).Owed == 0 })
		if !cut.Fired() || s.n() != 1 || w.messages("TOLLGATE_DLQ") != 1 {
			t.Errorf("fault %t, %d executions, %d letters", cut.Fired(), s.n(), w.messages("TOLLGATE_DLQ"))
		}
		w.verify()
	})
}

// B13: retries inside the duplicate window are deliveries of their own, whatever
// message ID the agent used.
func TestB13EveryRetryIsDelivered(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(busy(time.Second), busy(2*time.Second), busy(4*time.Second), nil)}, func(t *testing.T, w *world) {
		m := msg{tool: "look.up", run: "r", key: "k", deadline: time.Hour, header: map[string]string{schemas.HeaderMessageID: "one-publish"}}
		w.publish(m)
		w.publish(m) // the network's repeat of it is swallowed by the window
		o := w.outcome(m, time.Minute)
		if o.Status != schemas.Succeeded || len(o.Attempts) != 4 || s.n() != 4 {
			t.Errorf("%s after %d executions", o.Status, s.n())
		}
		for i, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if gap := s.at[i+1].Sub(s.at[i]); gap < least || gap > least*6/5+300*time.Millisecond {
				t.Errorf("wait %d was %s, stated %s", i+1, gap, least)
			}
		}
		first, retries := w.consumer("TOLLGATE_CALLS", "calls-look=2Eup"), w.consumer("TOLLGATE_RETRY", "calls-look=2Eup")
		if first.Delivered.Consumer != 1 || retries.Delivered.Consumer != 3 {
			t.Errorf("delivered %d times first and %d times again", first.Delivered.Consumer, retries.Delivered.Consumer)
		}
		w.charged("r", 4, 0)
		if p := w.letters(deadletter.Filter{State: "all"}); p.Total != 0 {
			t.Errorf("letters: %+v", p)
		}
	})
}

// B19: the dead-letter stream is gone. The verdict is kept, the message stays, and
// the letter is written once the stream is there again.
func TestB19ALetterThatCannotBeStoredHoldsTheMessage(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(broken())}, func(t *testing.T, w *world) {
		ctx := context.Background()
		st, err := w.js.Stream(ctx, "TOLLGATE_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		config := st.CachedInfo().Config
		if err := w.js.DeleteStream(ctx, "TOLLGATE_DLQ"); err != nil {
			t.Fatal(err)
		}
		m := msg{tool: "send.mail", run: "r", key: "k", deadline: time.Hour}
		w.publish(m)
		for range 30 {
			time.Sleep(time.Second)
			if w.messages("TOLLGATE_CALLS") != 1 || s.n() != 1 {
				t.Fatalf("without the stream: %d messages, %d executions", w.messages("TOLLGATE_CALLS"), s.n())
			}
		}
		var status control.Status
		if err := w.ctl.Ask(ctx, control.VerbStatus, control.Empty{}, &status); err != nil {
			t.Errorf("status does not work without the stream: %v", err)
		}
		if status.Ready || status.Owed != 1 {
			t.Errorf("status: ready %t, %d owed", status.Ready, status.Owed)
		}
		if _, err := w.js.CreateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		w.drained(35 * time.Second)
		p := w.letters(deadletter.Filter{})
		if p.Total != 1 || p.Letters[0].Call != callID(m) || w.messages("TOLLGATE_DLQ") != 1 || s.n() != 1 {
			t.Errorf("letters %+v, %d executions", p, s.n())
		}
		w.charged("r", 1, 1)
		w.verify()
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
	var s seen
	var log alarm
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(broken())}, func(t *testing.T, w *world) {
		w.again(func() { w.log = &log })
		ctx := context.Background()
		st, err := w.js.Stream(ctx, "TOLLGATE_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		config := st.CachedInfo().Config
		config.MaxMsgs = 3
		if _, err := w.js.UpdateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		var calls []msg
		for _, k := range []string{"1", "2", "3", "4"} {
			calls = append(calls, msg{tool: "look.up", run: "r", key: k, deadline: time.Hour})
		}
		for _, m := range calls[:3] {
			w.publish(m)
		}
		w.drained(10 * time.Second)
		w.publish(calls[3])
		time.Sleep(20 * time.Second)
		if w.messages("TOLLGATE_CALLS") != 1 || w.messages("TOLLGATE_DLQ") != 3 || s.of(calls[3]) != 1 {
			t.Errorf("full: %d messages stay, %d letters, %d executions", w.messages("TOLLGATE_CALLS"), w.messages("TOLLGATE_DLQ"), s.of(calls[3]))
		}
		for _, m := range calls[:3] {
			w.letter(callID(m)) // fails the test if the oldest made room
		}
		if st := ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Owed != 1 || !log.has("maximum messages exceeded") {
			t.Errorf("no alarm: %d owed, log %q", st.Owed, log.buf.String())
		}
		config.MaxMsgs = -1
		if _, err := w.js.UpdateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		w.drained(20 * time.Second)
		if p := w.letters(deadletter.Filter{}); p.Total != 4 || s.n() != 4 {
			t.Errorf("%d letters, %d executions", p.Total, s.n())
		}
		w.verify()
	})
}

// B20: a stream that would drop letters by itself is put right at the start.
func TestB20ADroppingDeadLetterStreamIsPutRight(t *testing.T) {
	var s seen
	bubble(t, writeAndRead, map[string]function.Func{"tool": s.script(nil)}, func(t *testing.T, w *world) {
		ctx := context.Background()
		w.again(func() {
			if err := w.js.DeleteStream(ctx, "TOLLGATE_DLQ"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.js.CreateStream(ctx, jetstream.StreamConfig{Name: "TOLLGATE_DLQ", Subjects: []string{"tollgate.dlq.>"},
				Discard: jetstream.DiscardOld, MaxMsgs: 3, MaxAge: time.Hour}); err != nil {
				t.Fatal(err)
			}
		})
		st, err := w.js.Stream(ctx, "TOLLGATE_DLQ")
		if err != nil {
			t.Fatal(err)
		}
		if c := st.CachedInfo().Config; c.Discard != jetstream.DiscardNew || c.MaxAge != 0 || c.MaxMsgs > 0 {
			t.Errorf("after the start: discard %v, max age %s, max messages %d", c.Discard, c.MaxAge, c.MaxMsgs)
		}
	})
}
