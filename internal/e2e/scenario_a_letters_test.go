package e2e

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B23: beside a call that kills the process each time, the others complete. (That it
// becomes poison is TestB23ACallThatKillsTheProcessBecomesPoison.)
func TestB23TheOthersCompleteBesideACallThatKillsTheProcess(t *testing.T) {
	var s seen
	tool := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		s.add(in)
		if string(in.Arguments) == `{"n":13}` {
			<-ctx.Done() // the process ends here
			return nil, ctx.Err()
		}
		return "ok", nil
	}
	bubble(t, "  look.up: { function: tool, effect: read, concurrency: 2, policies: [many] }\n", map[string]function.Func{"tool": tool}, func(t *testing.T, w *world) {
		deadly := msg{tool: "look.up", run: "r", key: "deadly", body: `{"n":13}`, deadline: time.Hour}
		w.publish(deadly)
		var others []msg
		for round := range 4 { // three recoveries, and the one that is too many
			n := s.of(deadly)
			w.until(time.Minute, "the call runs again", func() bool { return s.of(deadly) == n+1 || w.stored(deadly) != nil })
			m := msg{tool: "look.up", run: "r", key: strconv.Itoa(round), deadline: time.Hour}
			w.publish(m)
			others = append(others, m)
			time.Sleep(100 * time.Millisecond)
			w.crash()
			w.start()
		}
		o := w.outcome(deadly, time.Minute)
		n := s.of(deadly)
		time.Sleep(10 * time.Minute)
		if o.Code() != schemas.CodePoison || n != 4 || s.of(deadly) != n || len(o.Attempts) != 4 {
			t.Errorf("%s %s, %d executions", o.Status, o.Code(), s.of(deadly))
		}
		if p := w.letters(deadletter.Filter{}); p.Total != 1 || p.Letters[0].Reason != schemas.ReasonPoison {
			t.Errorf("letters %+v", p)
		}
		for _, m := range others {
			if o := w.outcome(m, time.Second); o.Status != schemas.Succeeded {
				t.Errorf("%s: %s", m.key, o.Status)
			}
		}
		if d := ask[control.CallDetail](w, control.VerbCallShow, control.IDQuery{ID: callID(deadly)}); d.Recoveries != 4 {
			t.Errorf("%d recoveries recorded", d.Recoveries)
		}
	})
}

// B24: six causes, six letters; each says what, why, from where and since when.
func TestB24EveryLetterSaysWhyAndWhereFrom(t *testing.T) {
	var s seen
	tools := `  do.work: { function: work, effect: read, concurrency: 1, policies: [many] }
  do.never: { function: lost, effect: write, concurrency: 1, policies: [quick] }
  do.deadly: { function: deadly, effect: read, concurrency: 1, policies: [many] }
  do.broken: { function: broken, effect: read, concurrency: 1, policies: [quick] }
`
	lost := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		s.add(in)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	bubble(t, tools, map[string]function.Func{"work": s.script(nil), "broken": s.script(broken()), "lost": lost, "deadly": lost}, func(t *testing.T, w *world) {
		begin := time.Now()
		invalid := msg{tool: "do.work", run: "invalid", key: "k", header: map[string]string{schemas.HeaderRunAttempts: "many"}}
		late := msg{tool: "do.work", run: "late", key: "k", deadline: -time.Second}
		poor := msg{tool: "do.work", run: "poor", key: "k", header: map[string]string{schemas.HeaderRunAttempts: "1"}}
		uncertain := msg{tool: "do.never", run: "uncertain", key: "k"}
		permanent := msg{tool: "do.broken", run: "permanent", key: "k"}
		deadly := msg{tool: "do.deadly", run: "deadly", key: "k", deadline: time.Hour}
		w.publish(poor)
		w.outcome(poor, time.Second)
		poor.key = "k2"
		for _, m := range []msg{invalid, late, poor, uncertain, permanent} {
			w.publish(m)
		}
		w.outcome(uncertain, 10*time.Second)
		w.publish(deadly)
		for n := 1; n <= 4; n++ {
			w.until(time.Minute, "the call runs again", func() bool { return s.of(deadly) == n })
			w.crash()
			w.start()
		}
		w.outcome(deadly, time.Minute)
		w.drained(time.Minute)
		for _, want := range []struct {
			m            msg
			reason, code string
			attempts     int
		}{
			{invalid, schemas.ReasonMalformed, schemas.CodeMalformed, 0},
			{late, schemas.ReasonExhaustedElapsedTime, schemas.CodeCallDeadline, 0},
			{poor, schemas.ReasonExhaustedAttempts, schemas.CodeRunBudget, 0},
			{permanent, schemas.ReasonFailed, "BROKEN", 1},
			{uncertain, schemas.ReasonUnknownOutcome, schemas.CodeTimeout, 1},
			{deadly, schemas.ReasonPoison, schemas.CodePoison, 4},
		} {
			p := w.letters(deadletter.Filter{Code: want.code})
			if p.Total != 1 {
				t.Errorf("%s: %d letters by code %s", want.m.run, p.Total, want.code)
				continue
			}
			l := w.letter(p.Letters[0].ID)
			if l.Reason != want.reason || l.Code != want.code || l.Message == "" || l.NextStep == "" || l.Attempts != want.attempts {
				t.Errorf("%s: %s %s %q, next %q, %d attempts", want.m.run, l.Reason, l.Code, l.Message, l.NextStep, l.Attempts)
			}
			subject := want.m.build().Subject
			if l.Origin.Subject != subject || l.Origin.Stream != "TOLLGATE_CALLS" || l.Origin.Sequence == 0 {
				t.Errorf("%s: origin %+v", want.m.run, l.Origin)
			}
			if l.FirstSeen.Before(begin) || l.DiedAt.Before(l.FirstSeen) || l.Deadline.IsZero() {
				t.Errorf("%s: first seen %s, died %s, deadline %s", want.m.run, l.FirstSeen, l.DiedAt, l.Deadline)
			}
			if l.Tenant != "default" || l.Run != want.m.run || l.Tool != want.m.tool || l.Key != want.m.key || l.Generation != 0 || l.Arguments != "{}" {
				t.Errorf("%s: %+v", want.m.run, l)
			}
		}
		if p := w.letters(deadletter.Filter{}); p.Total != 6 {
			t.Errorf("%d letters", p.Total)
		}
	})
}

// B25: what is replayed is the message that died: every header it came with, values
// in their order, and its bytes.
func TestB25AReplayKeepsHeadersAndBytes(t *testing.T) {
	var s seen
	bubble(t, "  look.up: { function: tool, effect: read, policies: [slow, quick] }\n", map[string]function.Func{"tool": s.script(broken(), nil)}, func(t *testing.T, w *world) {
		m := msg{tool: "look.up", run: "r", key: "k", body: `{ "b":1,"a" : "é" }`, header: map[string]string{
			schemas.HeaderPolicy: "quick", schemas.HeaderToolCallID: "toolu_1", schemas.HeaderTraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"X-Trace": "ab;c=1", "x-lower": "kept", "X-Empty": ""}}
		n := m.build()
		n.Header["X-Many"] = []string{"second", "first"}
		if _, err := w.js.PublishMsg(context.Background(), n); err != nil {
			t.Fatal(err)
		}
		w.outcome(m, 5*time.Second)
		l := w.letter(callID(m))
		ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: m.tool})
		time.Sleep(time.Minute) // no pull is open any more
		w.replay(l.ID, deadletter.ReplayOptions{})
		st, err := w.js.Stream(context.Background(), "TOLLGATE_RETRY")
		if err != nil {
			t.Fatal(err)
		}
		again, err := st.GetLastMsgForSubject(context.Background(), "tollgate.retry.calls.default."+callID(m)+".look.up")
		if err != nil {
			t.Fatal(err)
		}
		sameHeaders(t, n.Header, again.Header)
		if string(again.Data) != m.body {
			t.Errorf("body %s", again.Data)
		}
		ask[control.ToolDetail](w, control.VerbToolResume, control.ToolQuery{Tool: m.tool})
		o := w.outcome(m, 5*time.Second, 1)
		if o.Status != schemas.Succeeded || s.n() != 2 || string(s.calls[1].Arguments) != m.body || o.ToolCallID != "toolu_1" ||
			s.calls[0].TraceParent != s.calls[1].TraceParent || s.calls[0].Key != s.calls[1].Key {
			t.Errorf("%s after %d executions: %+v", o.Status, s.n(), s.calls)
		}
	})
}

// sameHeaders fails unless got is what was sent, and beside it only what a replay
// is documented to carry.
func sameHeaders(t *testing.T, sent, got nats.Header) {
	t.Helper()
	for k, vs := range sent {
		if len(got[k]) != len(vs) {
			t.Errorf("header %s: %q became %q", k, vs, got[k])
			continue
		}
		for i := range vs {
			if got[k][i] != vs[i] {
				t.Errorf("header %s: %q became %q", k, vs, got[k])
			}
		}
	}
	added := map[string]bool{schemas.HeaderCall: true, schemas.HeaderAttempt: true, schemas.HeaderGeneration: true, schemas.HeaderToken: true,
		schemas.HeaderSpentAttempts: true, schemas.HeaderSpentSideEffects: true, schemas.HeaderLastCode: true}
	for k, vs := range got {
		if _, there := sent[k]; !there && !added[k] {
			t.Errorf("header %s: %q was added", k, vs)
		}
	}
}

// B33: retries first, the letter last.
func TestB33ALetterComesAfterTheRetriesAndOnlyThen(t *testing.T) {
	var mends, never seen
	tools := `  look.mends: { function: mends, effect: read, policies: [patient] }
  look.never: { function: never, effect: read, policies: [patient] }
`
	bubble(t, tools, map[string]function.Func{"mends": mends.script(busy(0), busy(0), nil), "never": never.script(busy(0))}, func(t *testing.T, w *world) {
		good := msg{tool: "look.mends", run: "r", key: "k", deadline: time.Hour}
		bad := msg{tool: "look.never", run: "r", key: "k", deadline: time.Hour}
		w.publish(good)
		w.publish(bad)
		if o := w.outcome(good, time.Minute); o.Status != schemas.Succeeded || mends.n() != 3 {
			t.Errorf("mends: %s after %d", o.Status, mends.n())
		}
		if o := w.outcome(bad, time.Minute); o.Code() != schemas.CodeCallAttempts || never.n() != 3 {
			t.Errorf("never: %s after %d", o.Code(), never.n())
		}
		w.drained(5 * time.Second)
		time.Sleep(10 * time.Minute)
		p := w.letters(deadletter.Filter{State: "all"})
		if p.Total != 1 || p.Letters[0].Call != callID(bad) || p.Letters[0].Reason != schemas.ReasonExhaustedAttempts || never.n() != 3 || mends.n() != 3 {
			t.Errorf("letters %+v, executions %d and %d", p, mends.n(), never.n())
		}
		w.charged("r", 6, 0)
	})
}
