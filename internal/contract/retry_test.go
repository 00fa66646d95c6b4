package contract

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"tollgate/client"
	"tollgate/schemas"
)

// DESIGN 13, first: a transient failure is tried again with the same key and bytes,
// not before the stated wait is over (I4, I6, I7); and the answer to the key is
// from then on the success, never the failure before it (B55).
func TestContractI4TransientThenSuccess(t *testing.T) {
	b := newBench(t, keyed, "")
	b.each("k1", "wait:300 ok", nil, func(b *bench, m msg, o *schemas.Outcome) {
		got := b.expect(m, o, wants{status: schemas.Succeeded, requests: 2})
		b.gaps(got, o, 300*time.Millisecond)
		if o.Attempts[0].Code != "POOL_SATURATED" || o.Budget.SideEffects.Used != 2 {
			b.t.Errorf("outcome %+v", o)
		}
		if again := b.do(m); again.Status != schemas.Succeeded || !again.Repeated || again.ID != o.ID || len(b.seen(m)) != 2 {
			b.t.Errorf("the same key again: %+v", again)
		}
	})
	b.sound()
}

// gaps checks the waits between requests: at least the stated one, with at most a
// fifth of jitter on top, as the tool saw them and as the outcome tells.
func (b *bench) gaps(got []request, o *schemas.Outcome, stated ...time.Duration) {
	b.t.Helper()
	for i, wait := range stated {
		gap, most := got[i+1].at.Sub(got[i].at), wait+wait/5 // not before wait, whatever else
		if gap < wait || gap > most+b.slow.late() {
			b.t.Errorf("gap %d is %v, want %v to %v", i+1, gap, wait, most)
		}
		failed, next := o.Attempts[i], o.Attempts[i+1]
		delay, waited := time.Duration(failed.DelayMS)*time.Millisecond, time.Duration(next.WaitedMS)*time.Millisecond
		if time.Duration(failed.RetryAfterMS)*time.Millisecond != wait || delay < wait || delay > most || waited < delay || waited > delay+b.slow.late() {
			b.t.Errorf("recorded: %+v, then %+v", failed, next)
		}
	}
}

// DESIGN 13, pool saturation, with the numbers of the retry contract's example.
func TestContractI6PoolSaturation(t *testing.T) {
	b := newBench(t, keyed, "")
	b.each("k1", "wait:1200 wait:2400 ok", nil, func(b *bench, m msg, o *schemas.Outcome) {
		got := b.expect(m, o, wants{status: schemas.Succeeded, requests: 3})
		b.gaps(got, o, 1200*time.Millisecond, 2400*time.Millisecond)
		if rows := b.bank.rows(t, m.kind()); len(rows) != 1 || !rows[callID(m)] {
			b.t.Errorf("table %v", rows)
		}
	})
	b.sound()
}

// DESIGN 13, B33, B43: always retryable means exactly as many requests as attempts,
// whoever makes them, and then a letter; one success within them means none.
func TestContractAttemptsEnd(t *testing.T) {
	b := newBench(t, keyed, "")
	for key, script := range map[string]string{"own-backoff": "busy", "stated": "wait:50"} {
		b.each(key, script, nil, func(b *bench, m msg, o *schemas.Outcome) {
			b.expect(m, o, wants{status: schemas.Exhausted, code: schemas.CodeCallAttempts, requests: 4, letter: schemas.ReasonExhaustedAttempts})
			if o.Error.LastFailure == nil || !o.Error.LastFailure.Retryable || o.Error.Retryable {
				b.t.Errorf("error %+v", o.Error)
			}
		})
	}
	b.each("last-one", "busy busy busy ok", nil, func(b *bench, m msg, o *schemas.Outcome) {
		b.expect(m, o, wants{status: schemas.Succeeded, requests: 4})
	})
	b.sound()
}

// DESIGN 13: when the stated wait does not fit the deadline, the end comes at once
// and says so; nobody sits the time out (I5).
func TestContractAWaitThatDoesNotFitEndsAtOnce(t *testing.T) {
	b := newBench(t, keyed, "")
	b.each("k1", "wait:3000", func(m *msg) { m.deadline = 4 * time.Second }, func(b *bench, m msg, o *schemas.Outcome) {
		b.expect(m, o, wants{status: schemas.Exhausted, code: schemas.CodeDoesNotFit, requests: 1, letter: schemas.ReasonExhaustedElapsedTime})
		b.atOnce(o)
		if o.Error.LastFailure == nil || o.Error.LastFailure.Code != "POOL_SATURATED" || !strings.Contains(o.Error.Message, "wait 3") {
			b.t.Errorf("error %+v", o.Error)
		}
	})
	b.each("k2", "wait:11000", nil, func(b *bench, m msg, o *schemas.Outcome) {
		b.expect(m, o, wants{status: schemas.Unavailable, code: schemas.CodeWaitTooLong, requests: 1})
		b.atOnce(o)
	})
	b.sound()
}

// atOnce checks that a call ended without waiting for anything.
func (b *bench) atOnce(o *schemas.Outcome) {
	b.t.Helper()
	if took := o.Timing.Settled.Sub(o.Timing.Published); took > 700*time.Millisecond+b.slow.late() {
		b.t.Errorf("settled %v after it was published", took)
	}
}

// DESIGN 13, B43: the client, the endpoint, the dispatcher and the executor
// together make exactly max_attempts requests: no layer repeats what another does.
func TestContractAllLayersTogetherMakeMaxAttemptsRequests(t *testing.T) {
	b := newBench(t, keyed, "")
	agent, err := client.Connect(b.nc)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]*schemas.Outcome{}
	for _, kind := range kinds {
		m := b.call(kind, "k1", "busy")
		var failed *client.OutcomeError
		outcomes[kind], err = agent.Call(t.Context(), m.tool, json.RawMessage(m.body), client.Run(m.run), client.Key(m.key), client.Within(20*time.Second))
		if !errors.As(err, &failed) {
			t.Fatal(err)
		}
	}
	time.Sleep(200*time.Millisecond + late)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := b.in(t)
			b.expect(b.call(kind, "k1", "busy"), outcomes[kind], wants{status: schemas.Exhausted, code: schemas.CodeCallAttempts, requests: 4, letter: schemas.ReasonExhaustedAttempts})
		})
	}
	b.sound()
}
