package contract

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/schemas"
)

// DESIGN 13, I8: what is permanent, or on no list, is asked once, answered within a
// second, and never tried again; a resend is told the same, uncharged (B55).
func TestContractI8PermanentAndUnclassifiedAreAskedOnce(t *testing.T) {
	b := newBench(t, keyed, "")
	for script, want := range map[string]wants{
		"permanent": {status: schemas.ToolError, requests: 1},
		"strange":   {status: schemas.Failed, requests: 1, letter: schemas.ReasonFailed},
	} {
		b.each(script, script, nil, func(b *bench, m msg, o *schemas.Outcome) {
			want := want
			want.code = ownCodes[m.kind()+" "+script]
			b.expect(m, o, want)
			b.atOnce(o)
			if o.Attempts[0].DelayMS != 0 || o.Error.Retryable {
				b.t.Errorf("attempt %+v, error %+v", o.Attempts[0], o.Error)
			}
			again := b.do(m)
			if !again.Repeated || again.ID != o.ID {
				b.t.Errorf("the same key again: %+v", again)
			}
			b.expect(m, o, want)
		})
	}
	b.sound()
}

// ownCodes are what a failure is called where the tool gave it no name.
var ownCodes = map[string]string{
	"function permanent": "NO_ACCOUNT", "http permanent": "HTTP_400", "exec permanent": "EXIT_65", "nats permanent": "NATS_400",
	"function strange": schemas.CodeUnclassified, "http strange": "HTTP_418", "exec strange": "EXIT_1", "nats strange": schemas.CodeUnclassified,
}

// DESIGN 13: a stop reason means stop, whatever retryable says.
func TestContractAStopReasonOutranksRetryable(t *testing.T) {
	b := newBench(t, keyed, "")
	b.each("k1", "stop", nil, func(b *bench, m msg, o *schemas.Outcome) {
		b.expect(m, o, wants{status: schemas.Failed, code: "LOGIN", requests: 1, letter: schemas.ReasonFailed})
		b.atOnce(o)
		if l := b.letter(m, schemas.ReasonFailed); o.Error.StopReason != "AUTH_EXPIRED" || o.NextAction != schemas.Escalate || l.Arguments != m.body {
			b.t.Errorf("error %+v, letter %+v", o.Error, l)
		}
	})
	b.sound()
}

// The jobs lane has nobody who reads the outcome: what a call is told, a job leaves
// in a letter. (That a call leaves none is in the test of permanent failures.)
func TestContractAJobsToolErrorLeavesALetter(t *testing.T) {
	b := newBench(t, keyed, "")
	b.each("k1", "permanent", func(m *msg) { m.lane = schemas.Jobs }, func(b *bench, m msg, o *schemas.Outcome) {
		b.expect(m, o, wants{status: schemas.ToolError, code: ownCodes[m.kind()+" permanent"], requests: 1, letter: schemas.ReasonToolError})
	})
	b.sound()
}

// B88, I2, I14: a write that must not repeat and whose answer is lost may have
// happened, and here it has. It leaves once, stays charged, and goes to people.
func TestContractALostAnswerToAnUnrepeatableWriteIsUnknown(t *testing.T) {
	b := newBench(t, never, "")
	b.each("k1", "lost ok", nil, func(b *bench, m msg, o *schemas.Outcome) {
		b.expect(m, o, wants{status: schemas.UnknownOutcome, code: o.Code(), requests: 1, letter: schemas.ReasonUnknownOutcome})
		if o.NextAction != schemas.Reconcile || o.Attempts[0].Phase != "no_answer" || !o.Attempts[0].Reached || o.Budget.SideEffects.Used != 1 {
			b.t.Errorf("outcome %+v", o)
		}
		if !b.bank.rows(b.t, m.kind())[callID(m)] {
			b.t.Error("the effect did not happen: the test shows nothing")
		}
	})
	b.each("k2", "busy ok", nil, func(b *bench, m msg, o *schemas.Outcome) {
		want := wants{status: schemas.Failed, code: schemas.CodeUnsafeToRepeat, requests: 1, letter: schemas.ReasonFailed}
		if kind := m.kind(); kind == "http" || kind == "nats" { // a 503 may come from something in between
			want.status, want.letter, want.code = schemas.UnknownOutcome, schemas.ReasonUnknownOutcome, o.Code()
		}
		b.expect(m, o, want)
	})
	b.sound()
}

// DESIGN 7: what provably never left is tried again even where nothing may repeat,
// and its side effect is given back (B87); a bad certificate is asked once.
func TestContractWhatWasNeverSentIsTriedAgain(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about the handshake
	secure.StartTLS()
	t.Cleanup(secure.Close)
	b := newBench(t, never, `  refused.bank: { http: { url: `+gone.URL+` }, effect: write, retry_safety: never, dependency: calm, policies: [contract] }
  silent.bank: { nats: { subject: svc.nobody }, effect: write, retry_safety: never, dependency: calm, policies: [contract] }
  untrusted.bank: { http: { url: `+secure.URL+` }, effect: write, retry_safety: never, dependency: calm, policies: [contract] }
`)
	for kind, attempts := range map[string]int{"refused": 4, "silent": 4, "untrusted": 1} {
		m := b.call(kind, "k1", "ok")
		b.publish(m)
		o := b.outcome(m, 20*time.Second)
		want := schemas.Exhausted
		if attempts == 1 {
			want = schemas.Failed
		}
		if o.Status != want || len(o.Attempts) != attempts || o.Attempts[0].Phase != "not_sent" || o.Attempts[0].Reached || o.Budget.SideEffects.Used != 0 {
			t.Errorf("%s: %s %s, budget %+v, attempts %+v", kind, o.Status, o.Code(), o.Budget, o.Attempts)
		}
	}
	b.sound()
}

// DESIGN 7: the reconcile hook is asked once. Only "happened" settles the call, with
// the hook's result; everything else stays unknown, with the answer on the letter.
func TestContractTheReconcileHookDecidesOnlyWhatItSaw(t *testing.T) {
	b := newBench(t, never+"reconcile: KIND.check, ", "")
	b.each("happened", "lost ok", nil, func(b *bench, m msg, o *schemas.Outcome) {
		if o.Status != schemas.Succeeded || string(o.Structured) != `{"row":"`+callID(m)+`"}` || len(b.letters(m)) != 0 {
			b.t.Errorf("%s %+v, result %s", o.Status, o.Error, o.Structured)
		}
		b.reconciled(m, o)
	})
	b.each("undetermined", "vanish ok", nil, func(b *bench, m msg, o *schemas.Outcome) {
		l := b.letter(m, schemas.ReasonUnknownOutcome)
		if o.Status != schemas.UnknownOutcome || o.NextAction != schemas.Reconcile || !strings.Contains(l.Message, "undetermined") {
			b.t.Errorf("%s %+v, letter %q", o.Status, o.Error, l.Message)
		}
		b.reconciled(m, o)
	})
	b.sound()
}

// reconciled checks that the tool saw one request, and that the question was paid
// for as an attempt without a side effect.
func (b *bench) reconciled(m msg, o *schemas.Outcome) {
	b.t.Helper()
	a := ask[control.RunDetail](b.world, control.VerbRunShow, control.RunQuery{Run: m.run}).Accounts[m.run]
	if got := b.seen(m); len(got) != 1 || a.Attempts != 2 || a.Effects != 1 || len(o.Attempts) != 2 || !o.Attempts[1].Reconcile {
		b.t.Errorf("%d requests, account %+v, attempts %+v", len(got), a, o.Attempts)
	}
}
