package contract

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/schemas"
)

// DESIGN 13, duplicate delivery (I1, I7): the agent publishes twice, and the tool is asked
// twice because its first answer was lost. With the same key each time there is one
// row in the table, and the answer is the row's.
func TestContractI7DuplicateDeliveryMakesOneRow(t *testing.T) {
	b := newBench(t, keyed, "")
	b.each("k1", "lost ok", func(m *msg) { b.publish(*m) }, func(b *bench, m msg, o *schemas.Outcome) {
		b.expect(m, o, wants{status: schemas.Succeeded, requests: 2})
		if rows := b.bank.rows(b.t, m.kind()); len(rows) != 1 || !rows[callID(m)] {
			b.t.Errorf("table %v", rows)
		}
		if want := `{"row":"` + callID(m) + `","repeated":true}`; string(o.Structured) != want {
			b.t.Errorf("result %s, want %s", o.Structured, want)
		}
		if says := m.kind() == "http" || m.kind() == "nats"; o.ToolRepeated != says || o.Attempts[0].Phase != "no_answer" {
			b.t.Errorf("tool_repeated %v, attempts %+v", o.ToolRepeated, o.Attempts)
		}
	})
	for _, kind := range kinds { // and once more, after everything is over
		m := b.call(kind, "k1", "lost ok")
		b.publish(m)
		if o := b.do(m); !o.Repeated || o.Status != schemas.Succeeded || len(b.seen(m)) != 2 {
			t.Errorf("%s: repeated %v, %s, %d requests", kind, o.Repeated, o.Status, len(b.seen(m)))
		}
	}
	b.sound()
}

// DESIGN 13, B53, I13: the same key with another body never runs, not while the
// first runs and not afterwards; it is told so at once, sees nothing of the stored
// result, and costs nothing. The same body is answered with the one outcome.
func TestContractI13SameKeyOtherBodyIsAConflict(t *testing.T) {
	b := newBench(t, keyed, "")
	for _, kind := range kinds {
		m := b.call(kind, "k1", "slow")
		b.publish(m)
		for end := time.Now().Add(10 * time.Second); len(b.seen(m)) == 0 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		b.conflict(m, "while it runs")
		if o := b.do(m); o.Status != schemas.Succeeded {
			t.Errorf("%s: the same body: %+v", m.tool, o)
		}
	}
	b.each("k1", "slow", nil, func(b *bench, m msg, o *schemas.Outcome) {
		b.conflict(m, "afterwards")
		b.refusedOnTheStream(m)
		if now := b.stored(m); now.ID != o.ID {
			b.t.Errorf("the stored outcome has changed: %+v", now)
		}
		b.expect(m, o, wants{status: schemas.Succeeded, requests: 1})
	})
	b.sound()
}

// other is the call with one byte of another meaning.
func other(m msg) msg {
	m.body = `{"script": "slow",  "amount": 2.0}`
	return m
}

func (b *bench) conflict(m msg, when string) {
	b.t.Helper()
	began := time.Now()
	o := b.do(other(m))
	took := time.Since(began)
	if o.Status != schemas.Rejected || o.Code() != schemas.CodeKeyConflict || o.Structured != nil || len(o.Attempts) != 0 || took > b.slow.late() {
		b.t.Errorf("%s %s, after %v: %+v", m.tool, when, took, o)
	}
}

// refusedOnTheStream publishes the conflicting call the ordinary way: the refusal
// goes to a subject of its own, and the message is gone from the stream.
func (b *bench) refusedOnTheStream(m msg) {
	b.t.Helper()
	sub, err := b.nc.SubscribeSync("tollgate.results.default." + m.run + "." + callID(m) + ".refused")
	if err != nil {
		b.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	b.publish(other(m))
	var raw *nats.Msg
	if raw, err = sub.NextMsg(5 * time.Second); err != nil {
		b.t.Fatal(err)
	}
	var o schemas.Outcome
	if err := json.Unmarshal(raw.Data, &o); err != nil || o.Code() != schemas.CodeKeyConflict {
		b.t.Errorf("%v: %s", err, raw.Data)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		info, err := b.js.Stream(context.Background(), "TOLLGATE_CALLS")
		if err == nil && info.CachedInfo().State.Msgs == 0 {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("the refused message is still in the stream: %v", err)
		}
	}
}
