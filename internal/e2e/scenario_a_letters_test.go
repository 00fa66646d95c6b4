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
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B23: beside a call that kills the process each time, the others complete. (That it
// becomes poison is TestB23ACallThatKillsTheProcessBecomesPoison.)
func TestB23TheOthersCompleteBesideACallThatKillsTheProcess(t *testing.T) {
	var s worldtest.Seen
	tool := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		if string(in.Arguments) == `{"n":13}` {
			<-ctx.Done() // the process ends here
			return nil, ctx.Err()
		}
		return "ok", nil
	}
	worldtest.Bubble(t, "  look.up: { function: tool, effect: read, concurrency: 2, policies: [many] }\n", map[string]function.Func{"tool": tool}, func(t *testing.T, w *worldtest.World) {
		deadly := worldtest.Msg{Tool: "look.up", Run: "r", Key: "deadly", Body: `{"n":13}`, Deadline: time.Hour}
		w.Publish(deadly)
		var others []worldtest.Msg
		for round := range 4 { // three recoveries, and the one that is too many
			n := s.Of(deadly)
			w.Until(time.Minute, "the call runs again", func() bool { return s.Of(deadly) == n+1 || w.Stored(deadly) != nil })
			m := worldtest.Msg{Tool: "look.up", Run: "r", Key: strconv.Itoa(round), Deadline: time.Hour}
			w.Publish(m)
			others = append(others, m)
			time.Sleep(100 * time.Millisecond)
			w.Crash()
			w.Start()
		}
		o := w.Outcome(deadly, time.Minute)
		n := s.Of(deadly)
		time.Sleep(10 * time.Minute)
		if o.Code() != schemas.CodePoison || n != 4 || s.Of(deadly) != n || len(o.Attempts) != 4 {
			t.Errorf("%s %s, %d executions", o.Status, o.Code(), s.Of(deadly))
		}
		if p := w.Letters(deadletter.Filter{}); p.Total != 1 || p.Letters[0].Reason != schemas.ReasonPoison {
			t.Errorf("letters %+v", p)
		}
		for _, m := range others {
			if o := w.Outcome(m, time.Second); o.Status != schemas.Succeeded {
				t.Errorf("%s: %s", m.Key, o.Status)
			}
		}
		if d := worldtest.Ask[control.CallDetail](w, control.VerbCallShow, control.IDQuery{ID: worldtest.CallID(deadly)}); d.Recoveries != 4 {
			t.Errorf("%d recoveries recorded", d.Recoveries)
		}
	})
}

// B24: six causes, six letters; each says what, why, from where and since when.
func TestB24EveryLetterSaysWhyAndWhereFrom(t *testing.T) {
	var s worldtest.Seen
	tools := `  do.work: { function: work, effect: read, concurrency: 1, policies: [many] }
  do.never: { function: lost, effect: write, concurrency: 1, policies: [quick] }
  do.deadly: { function: deadly, effect: read, concurrency: 1, policies: [many] }
  do.broken: { function: broken, effect: read, concurrency: 1, policies: [quick] }
`
	lost := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	worldtest.Bubble(t, tools, map[string]function.Func{"work": s.Script(nil), "broken": s.Script(worldtest.Broken()), "lost": lost, "deadly": lost}, func(t *testing.T, w *worldtest.World) {
		begin := time.Now()
		invalid := worldtest.Msg{Tool: "do.work", Run: "invalid", Key: "k", Header: map[string]string{schemas.HeaderRunAttempts: "many"}}
		late := worldtest.Msg{Tool: "do.work", Run: "late", Key: "k", Deadline: -time.Second}
		poor := worldtest.Msg{Tool: "do.work", Run: "poor", Key: "k", Header: map[string]string{schemas.HeaderRunAttempts: "1"}}
		uncertain := worldtest.Msg{Tool: "do.never", Run: "uncertain", Key: "k"}
		permanent := worldtest.Msg{Tool: "do.broken", Run: "permanent", Key: "k"}
		deadly := worldtest.Msg{Tool: "do.deadly", Run: "deadly", Key: "k", Deadline: time.Hour}
		w.Publish(poor)
		w.Outcome(poor, time.Second)
		poor.Key = "k2"
		for _, m := range []worldtest.Msg{invalid, late, poor, uncertain, permanent} {
			w.Publish(m)
		}
		w.Outcome(uncertain, 10*time.Second)
		w.Publish(deadly)
		for n := 1; n <= 4; n++ {
			w.Until(time.Minute, "the call runs again", func() bool { return s.Of(deadly) == n })
			w.Crash()
			w.Start()
		}
		w.Outcome(deadly, time.Minute)
		w.Drained(time.Minute)
		for _, want := range []struct {
			m            worldtest.Msg
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
			p := w.Letters(deadletter.Filter{Code: want.code})
			if p.Total != 1 {
				t.Errorf("%s: %d letters by code %s", want.m.Run, p.Total, want.code)
				continue
			}
			l := w.Letter(p.Letters[0].ID)
			if l.Reason != want.reason || l.Code != want.code || l.Message == "" || l.NextStep == "" || l.Attempts != want.attempts {
				t.Errorf("%s: %s %s %q, next %q, %d attempts", want.m.Run, l.Reason, l.Code, l.Message, l.NextStep, l.Attempts)
			}
			subject := want.m.Build().Subject
			if l.Origin.Subject != subject || l.Origin.Stream != "TOLLGATE_CALLS" || l.Origin.Sequence == 0 {
				t.Errorf("%s: origin %+v", want.m.Run, l.Origin)
			}
			if l.FirstSeen.Before(begin) || l.DiedAt.Before(l.FirstSeen) || l.Deadline.IsZero() {
				t.Errorf("%s: first seen %s, died %s, deadline %s", want.m.Run, l.FirstSeen, l.DiedAt, l.Deadline)
			}
			if l.Tenant != "default" || l.Run != want.m.Run || l.Tool != want.m.Tool || l.Key != want.m.Key || l.Generation != 0 || l.Arguments != "{}" {
				t.Errorf("%s: %+v", want.m.Run, l)
			}
		}
		if p := w.Letters(deadletter.Filter{}); p.Total != 6 {
			t.Errorf("%d letters", p.Total)
		}
	})
}

// B25: what is replayed is the message that died: every header it came with, values
// in their order, and its bytes.
func TestB25AReplayKeepsHeadersAndBytes(t *testing.T) {
	var s worldtest.Seen
	worldtest.Bubble(t, "  look.up: { function: tool, effect: read, policies: [slow, quick] }\n", map[string]function.Func{"tool": s.Script(worldtest.Broken(), nil)}, func(t *testing.T, w *worldtest.World) {
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "k", Body: `{ "b":1,"a" : "é" }`, Header: map[string]string{
			schemas.HeaderPolicy: "quick", schemas.HeaderToolCallID: "toolu_1", schemas.HeaderTraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"X-Trace": "ab;c=1", "x-lower": "kept", "X-Empty": ""}}
		n := m.Build()
		n.Header["X-Many"] = []string{"second", "first"}
		if _, err := w.JS.PublishMsg(context.Background(), n); err != nil {
			t.Fatal(err)
		}
		w.Outcome(m, 5*time.Second)
		l := w.Letter(worldtest.CallID(m))
		worldtest.Ask[control.ToolDetail](w, control.VerbToolPause, control.ToolQuery{Tool: m.Tool})
		time.Sleep(time.Minute) // no pull is open any more
		w.Replay(l.ID, deadletter.ReplayOptions{})
		st, err := w.JS.Stream(context.Background(), "TOLLGATE_RETRY")
		if err != nil {
			t.Fatal(err)
		}
		again, err := st.GetLastMsgForSubject(context.Background(), "tollgate.retry.calls.default."+worldtest.CallID(m)+".look.up")
		if err != nil {
			t.Fatal(err)
		}
		sameHeaders(t, n.Header, again.Header)
		if string(again.Data) != m.Body {
			t.Errorf("body %s", again.Data)
		}
		worldtest.Ask[control.ToolDetail](w, control.VerbToolResume, control.ToolQuery{Tool: m.Tool})
		o := w.Outcome(m, 5*time.Second, 1)
		if o.Status != schemas.Succeeded || s.N() != 2 || string(s.Calls[1].Arguments) != m.Body || o.ToolCallID != "toolu_1" ||
			s.Calls[0].TraceParent != s.Calls[1].TraceParent || s.Calls[0].Key != s.Calls[1].Key {
			t.Errorf("%s after %d executions: %+v", o.Status, s.N(), s.Calls)
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
	var mends, never worldtest.Seen
	tools := `  look.mends: { function: mends, effect: read, policies: [patient] }
  look.never: { function: never, effect: read, policies: [patient] }
`
	worldtest.Bubble(t, tools, map[string]function.Func{"mends": mends.Script(worldtest.Busy(0), worldtest.Busy(0), nil), "never": never.Script(worldtest.Busy(0))}, func(t *testing.T, w *worldtest.World) {
		good := worldtest.Msg{Tool: "look.mends", Run: "r", Key: "k", Deadline: time.Hour}
		bad := worldtest.Msg{Tool: "look.never", Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(good)
		w.Publish(bad)
		if o := w.Outcome(good, time.Minute); o.Status != schemas.Succeeded || mends.N() != 3 {
			t.Errorf("mends: %s after %d", o.Status, mends.N())
		}
		if o := w.Outcome(bad, time.Minute); o.Code() != schemas.CodeCallAttempts || never.N() != 3 {
			t.Errorf("never: %s after %d", o.Code(), never.N())
		}
		w.Drained(5 * time.Second)
		time.Sleep(10 * time.Minute)
		p := w.Letters(deadletter.Filter{State: "all"})
		if p.Total != 1 || p.Letters[0].Call != worldtest.CallID(bad) || p.Letters[0].Reason != schemas.ReasonExhaustedAttempts || never.N() != 3 || mends.N() != 3 {
			t.Errorf("letters %+v, executions %d and %d", p, mends.N(), never.N())
		}
		w.Charged("r", 6, 0)
	})
}
