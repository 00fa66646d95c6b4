package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// unknownWorld has one write that never answers, until told to.
func unknownWorld(t *testing.T) (w *worldtest.World, s *worldtest.Seen, m worldtest.Msg, letter string) {
	s = &worldtest.Seen{}
	w = worldtest.New(t, threeWrites, map[string]function.Func{"pay": func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		if s.Add(in) == 1 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return map[string]any{"paid": in.Generation}, nil
	}})
	m = worldtest.Msg{Tool: "pay.never", Run: "r", Key: "k", Body: `{"cents": 500}`}
	w.Publish(m)
	if o := w.Outcome(m, 10*time.Second); o.Status != schemas.UnknownOutcome {
		t.Fatalf("%s", o.Status)
	}
	time.Sleep(100 * time.Millisecond)
	return w, s, m, w.LettersOf("r")[0].ID
}

// I10, I14: an operator says that it happened: the result is stored, published and
// given to whoever asks again; nothing is dispatched.
func TestResolveHappenedStoresTheResultAndDispatchesNothing(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s, m, id := unknownWorld(t)
		q := control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.Happened, Result: json.RawMessage(`{"paid":true}`), Why: "seen in the bank"}}
		worldtest.Ask[control.Done](w, control.VerbResolve, q)
		o := w.Outcome(m, 5*time.Second, 1)
		if o.Status != schemas.Succeeded || string(o.Structured) != `{"paid":true}` || o.NextAction != schemas.Return || o.Error != nil {
			t.Errorf("outcome %+v", o)
		}
		if again := w.Do(m); !again.Repeated || again.ID != o.ID || s.N() != 1 {
			t.Errorf("asked again: %+v, %d executed", again, s.N())
		}
		if p := w.Refused(control.VerbResolve, q); p.Code != 409 {
			t.Errorf("resolved twice: %+v", p)
		}
		if l := w.LettersOf("r"); len(l) != 0 {
			t.Errorf("still active: %+v", l)
		}
		if a, e := w.Account("r"); a != 1 || e != 1 {
			t.Errorf("charged %d and %d", a, e)
		}
		if got := w.Audit("resolve"); len(got) != 2 || !got[0].Allowed || got[1].Allowed || got[0].Before != "active" || got[0].After != "resolved by generation 1, done" || got[1].Before != got[0].After {
			t.Errorf("audit %+v", got)
		}
		w.Verify()
	})
}

// I2, I10: it did not happen, so the letter may be replayed, and only by a replay
// does it run again, once, under the same key.
func TestResolveDidNotHappenMakesTheLetterReplayable(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s, m, id := unknownWorld(t)
		if p := w.Refused(control.VerbReplay, control.ReplayQuery{ID: id}); p.Code != 409 || !strings.Contains(p.Try, "resolve") {
			t.Errorf("an unknown outcome was replayed: %+v", p)
		}
		worldtest.Ask[control.Done](w, control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.DidNotHappen}})
		time.Sleep(10 * time.Second)
		if s.N() != 1 || w.Stored(m).Generation != 0 {
			t.Errorf("resolving dispatched: %d", s.N())
		}
		if l := w.Letter(id); l.Verdict != string(deadletter.DidNotHappen) || strings.Contains(l.NextStep, "Never replay") {
			t.Errorf("it does not say that an operator knows: %+v", l)
		}
		// A mistake is taken back, whatever was noted in between.
		worldtest.Ask[control.Done](w, control.VerbNote, control.NoteQuery{ID: id, Text: "asking again"})
		worldtest.Ask[control.Done](w, control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.Undetermined}})
		if p := w.Refused(control.VerbReplay, control.ReplayQuery{ID: id}); p.Code != 409 || !strings.Contains(p.Try, "resolve") || w.Letter(id).Verdict != "" {
			t.Errorf("replayed although nobody can tell: %+v, %+v", p, w.Letter(id))
		}
		worldtest.Ask[control.Done](w, control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.DidNotHappen}})
		worldtest.Ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: id})
		o := w.Outcome(m, 10*time.Second, 1)
		if o.Status != schemas.Succeeded || string(o.Structured) != `{"paid":1}` || s.N() != 2 || s.Calls[0].Key != s.Calls[1].Key || string(s.Calls[1].Arguments) != m.Body {
			t.Errorf("replayed: %s %s, %d executed", o.Status, o.Structured, s.N())
		}
		if a, e := w.Account("r"); a != 2 || e != 2 {
			t.Errorf("charged %d and %d", a, e)
		}
		if p := w.Refused(control.VerbReplay, control.ReplayQuery{ID: id}); p.Code != 409 {
			t.Errorf("replayed twice: %+v", p)
		}
		w.Verify()
	})
}

// I14: "we cannot tell" changes nothing but the note.
func TestResolveUndeterminedKeepsTheLetter(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s, m, id := unknownWorld(t)
		worldtest.Ask[control.Done](w, control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.Undetermined, Why: "bank is closed"}})
		l := w.LettersOf("r")
		if len(l) != 1 || l[0].State != schemas.LetterActive || !strings.Contains(l[0].Note, "bank is closed") {
			t.Errorf("letters %+v", l)
		}
		if p := w.Refused(control.VerbReplay, control.ReplayQuery{ID: id}); p.Code != 409 {
			t.Errorf("replay: %+v", p)
		}
		if p := w.Refused(control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: "maybe"}}); p.Code != 409 {
			t.Errorf("no verdict: %+v", p)
		}
		if o := w.Stored(m); o.Status != schemas.UnknownOutcome || s.N() != 1 {
			t.Errorf("%s, %d executed", o.Status, s.N())
		}
		w.Verify()
	})
}

// A refused message is no call: its letter can be put aside and taken up again, and
// it can neither be replayed nor be said to have happened.
func TestAMalformedLetterIsDiscardedAndRestored(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		w.Publish(worldtest.Msg{Tool: "look.up", Run: "r", Key: "bad key", Body: `{"a":1}`})
		time.Sleep(time.Second)
		l := w.LettersOf("")
		if len(l) != 1 || l[0].Reason != schemas.ReasonMalformed {
			t.Fatalf("letters %+v", l)
		}
		id := l[0].ID
		for _, v := range []deadletter.Verdict{deadletter.Happened, deadletter.DidNotHappen} {
			if p := w.Refused(control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: v}}); p.Code != 409 {
				t.Errorf("%s: %+v", v, p)
			}
		}
		worldtest.Ask[control.Done](w, control.VerbDiscard, control.LetterQuery{ID: id, Why: "a typo"})
		if l := w.LettersOf(""); len(l) != 0 {
			t.Errorf("discarded: %+v", l)
		}
		if p := w.Refused(control.VerbDiscard, control.LetterQuery{ID: id}); p.Code != 409 {
			t.Errorf("discarded twice: %+v", p)
		}
		w.Stop()
		w.Start()
		worldtest.Ask[control.Done](w, control.VerbRestore, control.LetterQuery{ID: id})
		if l := w.LettersOf(""); len(l) != 1 || l[0].State != schemas.LetterActive {
			t.Errorf("restored: %+v", l)
		}
		if p := w.Refused(control.VerbReplay, control.ReplayQuery{ID: id}); p.Code != 409 {
			t.Errorf("replay: %+v", p)
		}
		if n := len(w.Audit("replay")); n != 1 { // once everything is published
			t.Errorf("%d replays audited", n)
		}
		if got := strings.Join(w.Audits(), " "); got != "resolve resolve discard discard restore replay" || s.N() != 0 { // what was refused is in it too
			t.Errorf("audit %s, %d executed", got, s.N())
		}
		w.Verify()
	})
}

// I3, I7, I10: a replay into another run is charged there and nowhere else, keeps
// key and bytes, and its outcome is the call's.
func TestAReplayIntoAnotherRunIsPaidThere(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  send.mail: { function: mail, effect: write, retry_safety: idempotent, dependency: free, policies: [quick] }
`+free, map[string]function.Func{"mail": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in) <= 5 { // all of generation 0 and the first of generation 1
				return nil, function.Transient("BUSY", "busy", time.Second)
			}
			return "sent", nil
		}})
		limits := map[string]string{schemas.HeaderRunAttempts: "4", schemas.HeaderRunSideEffects: "4"}
		m := worldtest.Msg{Tool: "send.mail", Run: "r/child", Key: "k", Body: `{"to":"a"}`, Header: limits}
		first := w.Do(m)
		if first.Status != schemas.Exhausted {
			t.Fatalf("%s %s", first.Status, first.Code())
		}
		if p := w.Refused(control.VerbReplay, control.ReplayQuery{ID: first.Call}); p.Code != 409 || !strings.Contains(p.Try, "--new-run") {
			t.Errorf("a run without budget paid: %+v", p)
		}
		worldtest.Ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: first.Call, ReplayOptions: deadletter.ReplayOptions{NewRun: "ops/repair", Why: "test"}})
		o := w.Outcome(m, 20*time.Second, 1)
		if o.Status != schemas.Succeeded || len(s.Calls) != 6 || o.Run != "ops/repair" {
			t.Errorf("%s %s in run %s after %d executions", o.Status, o.Code(), o.Run, s.N())
		}
		for _, c := range s.Calls {
			if c.Key != first.Call || string(c.Arguments) != m.Body {
				t.Errorf("I7: %+v", c)
			}
		}
		for path, want := range map[string]int{"r": 4, "r/child": 4, "ops": 2, "ops/repair": 2} {
			if a, e := w.Account(path); a != want || e != want {
				t.Errorf("%s: charged %d and %d, want %d", path, a, e, want)
			}
		}
		if again := w.Do(m); !again.Repeated || again.ID != o.ID || s.N() != 6 {
			t.Errorf("asked again under the old run: %+v", again)
		}
		w.Verify()
	})
}
