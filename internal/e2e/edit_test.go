package e2e

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

const editTools = `  pay.it:
    function: pay
    effect: write
    retry_safety: never
    concurrency: 4
    policies: { calls: [slow], jobs: [slow] }
    redact: [/card/number]
    schema: { type: object, properties: { amount: { type: integer, minimum: 1 } }, required: [amount] }
`

// wrongArguments are what a publisher got wrong: an amount that is refused, beside
// numbers that no decoder of floats brings back, a secret, and spaces of its own.
const wrongArguments = `{"amount": 13,  "ref": 12345678901234567890, "rate": 1.10, "card": {"number": "4111"}, "note":"<b>\u00e9"}`

// editWorld has a dead call of wrongArguments, whose letter is id.
func editWorld(t *testing.T, f func(t *testing.T, w *worldtest.World, s *worldtest.Seen, id string)) {
	var s worldtest.Seen
	pay := func(_ context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		if strings.Contains(strings.ReplaceAll(string(in.Arguments), " ", ""), `"amount":13`) {
			return nil, worldtest.Broken()
		}
		return "paid", nil
	}
	worldtest.Bubble(t, editTools, map[string]function.Func{"pay": pay}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() { w.Config += "dead_letters: { allow_edit: true }\n" })
		w.Publish(wrongCall)
		o := w.Outcome(wrongCall, 10*time.Second)
		w.Drained(10 * time.Second)
		f(t, w, &s, dedupe.LetterID(o.Call, 0))
	})
}

var wrongCall = worldtest.Msg{Tool: "pay.it", Run: "r", Key: "k", Body: wrongArguments, Deadline: 10 * time.Minute,
	Header: map[string]string{schemas.HeaderToolCallID: "toolu_1", schemas.HeaderTraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Mine": "kept"}}

func setAmount(value string) []deadletter.Assignment {
	return []deadletter.Assignment{{Pointer: "/amount", Value: []byte(value)}}
}

func edit(w *worldtest.World, id string, o deadletter.EditOptions) control.EditReport {
	w.T.Helper()
	return worldtest.Ask[control.EditReport](w, control.VerbEdit, control.EditQuery{ID: id, EditOptions: o})
}

// editedCall is the call that an edit of wrongCall to the arguments makes.
func editedCall(t *testing.T, id, arguments string) worldtest.Msg {
	t.Helper()
	f, err := dedupe.Fingerprint([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return worldtest.Msg{Tool: "pay.it", Run: "r", Key: dedupe.EditedKey("k", id, f), Body: arguments}
}

// An edit makes one new call of a letter, with a key of its own, in the same run, with
// every byte that was not edited as it was, and resolves the letter with a link.
func TestAnEditedLetterBecomesOneNewCall(t *testing.T) {
	editWorld(t, func(t *testing.T, w *worldtest.World, s *worldtest.Seen, id string) {
		want := strings.Replace(wrongArguments, "13", "14", 1)
		next := editedCall(t, id, want)

		dry := edit(w, id, deadletter.EditOptions{Set: setAmount("14"), DryRun: true})
		const diff = "--- dead letter ID\n+++ edited\n@@ -1,5 +1,5 @@\n {\n-  \"amount\": 13,\n+  \"amount\": 14,\n   \"ref\": 12345678901234567890,\n   \"rate\": 1.10,\n   \"card\": {\n"
		if got := strings.Replace(dry.Diff, id, "ID", 1); got != diff || len(dry.Problems) != 0 || dry.Call != worldtest.CallID(next) || dry.Published {
			t.Errorf("a dry run answers %+v", dry)
		}
		time.Sleep(5 * time.Second)
		if l := w.Letter(id); s.N() != 1 || l.State != schemas.LetterActive || len(w.Audit("edit")) != 0 {
			t.Fatalf("a dry run has done something: %d executions, %+v", s.N(), l)
		}

		at := time.Now()
		r := edit(w, id, deadletter.EditOptions{Set: setAmount("14"), Why: "INC-1"})
		o := w.Outcome(next, 10*time.Second)
		if o.Status != schemas.Succeeded || o.ToolCallID != "toolu_1" || !r.Published || r.Call != o.Call || r.Key != next.Key {
			t.Errorf("the new call: %+v, outcome %+v", r, o)
		}
		if left := o.Timing.Deadline.Sub(at); left < 10*time.Minute-time.Second || left > 10*time.Minute {
			t.Errorf("the new call has %s, the old one had 10m", left)
		}
		if in := s.Calls[len(s.Calls)-1]; string(in.Arguments) != want || in.Key != o.Call || in.TraceParent == "" {
			t.Errorf("the tool was asked %s under %s", in.Arguments, in.Key)
		}
		w.Charged("r", 2, 2)

		again := edit(w, id, deadletter.EditOptions{Set: setAmount("14"), Why: "INC-1 again"})
		if again.Call != o.Call || !again.Again {
			t.Errorf("the same edit again: %+v", again)
		}
		if f := w.Refused(control.VerbEdit, control.EditQuery{ID: id, EditOptions: deadletter.EditOptions{Set: setAmount("15"), Why: "x"}}); f.Code != 409 || !strings.Contains(f.What, "edited already, into call "+o.Call) {
			t.Errorf("another edit: %+v", f)
		}
		if f := w.Refused(control.VerbReplay, control.ReplayQuery{ID: id}); f.Code != 409 {
			t.Errorf("a replay of what was edited: %+v", f)
		}
		time.Sleep(time.Minute)
		if s.N() != 2 {
			t.Errorf("%d executions", s.N())
		}

		l := w.Letter(id)
		if l.State != schemas.LetterResolved || l.EditedTo != o.Call || !strings.Contains(l.Note, "INC-1") {
			t.Errorf("the letter is %s, edited to %q, noted %q", l.State, l.EditedTo, l.Note)
		}
		d := worldtest.Ask[control.CallDetail](w, control.VerbCallShow, control.IDQuery{ID: o.Call})
		if d.EditedFrom != id || d.Run != "r" {
			t.Errorf("the new call: %+v", d)
		}
		auditedEdit(t, w, id, o.Call)
		w.Verify()
	})
}

// An edited letter that was purged comes back as what it was: its call is another now, and
// nothing brings the first arguments to the tool again.
func TestAnEditedLetterThatComesBackIsNotReplayed(t *testing.T) {
	editWorld(t, func(t *testing.T, w *worldtest.World, s *worldtest.Seen, id string) {
		r := edit(w, id, deadletter.EditOptions{Set: setAmount("14"), Why: "INC-1"})
		w.Outcome(editedCall(t, id, strings.Replace(wrongArguments, "13", "14", 1)), 10*time.Second)
		time.Sleep(5 * time.Second)
		taken, err := w.Ctl.Fetch(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		worldtest.Ask[control.Done](w, control.VerbPurge, control.PurgeQuery{ID: id})
		header, body := taken.Unpack()
		header[control.HeaderSubject] = []string{taken.Subject}
		if _, err := w.Ctl.Send(t.Context(), control.VerbImport, header, body); err != nil {
			t.Fatal(err)
		}
		if l := w.Letter(id); l.State != schemas.LetterResolved || l.EditedTo != r.Call {
			t.Errorf("it came back as %s, edited to %q", l.State, l.EditedTo)
		}
		if f := w.Refused(control.VerbRestore, control.LetterQuery{ID: id}); f.Code != 409 {
			t.Errorf("restored: %+v", f)
		}
		if f := w.Refused(control.VerbReplay, control.ReplayQuery{ID: id}); f.Code != 409 || !strings.Contains(f.Try, r.Call) {
			t.Errorf("replayed: %+v", f)
		}
		time.Sleep(time.Minute)
		if s.N() != 2 {
			t.Errorf("%d executions", s.N())
		}
		w.Verify()
	})
}

// auditedEdit checks that the audit tells hashes and the link, and no arguments.
func auditedEdit(t *testing.T, w *worldtest.World, id, call string) {
	t.Helper()
	all := w.Audit("edit")
	if len(all) != 2 || !all[0].Allowed || all[1].Allowed {
		t.Fatalf("audited %+v", all)
	}
	a := all[0]
	if a.Target != id || a.Why != "INC-1" || !strings.HasPrefix(a.Before, "active, arguments hidden in part") || !strings.HasPrefix(a.After, "resolved, edited to call "+call+", arguments hidden in part") {
		t.Errorf("audited %+v", a)
	}
	if text := a.Before + a.After + a.Detail; strings.Contains(text, "12345678901234567890") || strings.Contains(text, "4111") {
		t.Errorf("the audit has arguments: %+v", a)
	}
}

// A letter of the new call tells what it was made of, and an agent cannot make a call
// look like an edit.
func TestWhereAnEditCameFromIsNotForged(t *testing.T) {
	editWorld(t, func(t *testing.T, w *worldtest.World, _ *worldtest.Seen, id string) {
		forged := worldtest.Msg{Tool: "pay.it", Run: "r", Key: "forged", Body: wrongArguments, Header: map[string]string{schemas.HeaderReplayOf: id}}
		w.Publish(forged)
		o := w.Outcome(forged, 10*time.Second)
		if d := worldtest.Ask[control.CallDetail](w, control.VerbCallShow, control.IDQuery{ID: o.Call}); d.EditedFrom != "" {
			t.Errorf("a call says that it is an edit, and is believed: %+v", d)
		}
		bad := strings.Replace(wrongArguments, `{`, `{"more":1,`, 1) // dies again
		next := editedCall(t, id, bad)
		edit(w, id, deadletter.EditOptions{Arguments: []byte(bad), Why: "x"})
		o = w.Outcome(next, 10*time.Second)
		w.Drained(10 * time.Second)
		l := w.Letter(dedupe.LetterID(o.Call, 0))
		if l.EditedFrom != id || l.Header.Get("X-Mine") != "kept" || l.Key != next.Key {
			t.Errorf("the letter of an edited call: %+v", l)
		}
		if f := w.Letter(dedupe.LetterID(worldtest.CallID(forged), 0)); f.EditedFrom != "" {
			t.Errorf("the forged call's letter: %+v", f)
		}
	})
}

// What is redacted is hidden in the diff and in the text to edit; a mask that is left
// in its place means the value as it was.
func TestRedactedArgumentsAreEditedUnseen(t *testing.T) {
	editWorld(t, func(t *testing.T, w *worldtest.World, s *worldtest.Seen, id string) {
		text := worldtest.Ask[control.EditReport](w, control.VerbEdit, control.EditQuery{ID: id, Text: true, EditOptions: deadletter.EditOptions{DryRun: true}}).Arguments
		if strings.Contains(text, "4111") || !strings.Contains(text, deadletter.Mask) || !strings.Contains(text, "12345678901234567890") {
			t.Fatalf("the text to edit: %s", text)
		}
		dry := edit(w, id, deadletter.EditOptions{DryRun: true, Set: []deadletter.Assignment{{Pointer: "/card/number", Value: []byte(`"4222"`)}}})
		if strings.Contains(dry.Diff, "4111") || strings.Contains(dry.Diff, "4222") || !strings.Contains(dry.Diff, "(changed)") {
			t.Errorf("the diff: %s", dry.Diff)
		}
		r := edit(w, id, deadletter.EditOptions{Arguments: []byte(strings.Replace(text, "13", "14", 1)), Why: "x"})
		w.Until(10*time.Second, "the new call", func() bool { return s.N() == 2 })
		if got := string(s.Calls[1].Arguments); s.Calls[1].Call != r.Call || !strings.Contains(got, `"4111"`) || strings.Contains(got, deadletter.Mask) {
			t.Errorf("the tool was asked %s", got)
		}
	})
}

// What must not be edited is refused, with its place and what to try, and audited.
func TestEditsAreRefused(t *testing.T) {
	editWorld(t, func(t *testing.T, w *worldtest.World, s *worldtest.Seen, id string) {
		refused := 0
		no := func(code int, part string, o deadletter.EditOptions) {
			t.Helper()
			f := w.Refused(control.VerbEdit, control.EditQuery{ID: id, EditOptions: o})
			if refused++; f.Code != code || !strings.Contains(f.What, part) || f.Try == "" {
				t.Errorf("want %d %q, got %+v", code, part, f)
			}
		}
		no(422, "needs a reason", deadletter.EditOptions{Set: setAmount("14")})
		no(422, "do not change", deadletter.EditOptions{Set: setAmount("13"), Why: "x"})
		no(422, "/amount", deadletter.EditOptions{Set: setAmount("0"), Why: "x"})
		no(422, "/amount", deadletter.EditOptions{Set: setAmount(`"14"`), Why: "x"})
		no(422, "/card/number/0", deadletter.EditOptions{Set: []deadletter.Assignment{{Pointer: "/card/number/0", Value: []byte("1")}}, Why: "x"})
		no(422, "more than once", deadletter.EditOptions{Arguments: []byte(`{"amount":1,"amount":2}`), Why: "x"})
		no(422, "at most", deadletter.EditOptions{Arguments: []byte(`{"amount":1,"x":"` + strings.Repeat("x", 1<<20-64<<10) + `"}`), Why: "x"})
		fine := deadletter.EditOptions{Set: setAmount("14"), Why: "x"}
		worldtest.Ask[control.Done](w, control.VerbDiscard, control.LetterQuery{ID: id})
		no(409, "it is discarded", fine)
		worldtest.Ask[control.Done](w, control.VerbRestore, control.LetterQuery{ID: id})
		w.Again(func() { w.Config = strings.Replace(w.Config, "allow_edit: true", "allow_edit: false", 1) })
		no(403, "not allowed", fine)
		if r := edit(w, id, deadletter.EditOptions{Set: setAmount("0"), DryRun: true}); len(r.Problems) != 2 || r.Problems[0].Code != 403 || r.Problems[1].Code != 422 || r.Diff == "" {
			t.Errorf("a dry run tells every problem, and shows the diff: %+v", r)
		}
		w.Again(func() { w.Config = strings.Replace(w.Config, "allow_edit: false", "allow_edit: true", 1) })
		if _, err := w.Ctl.Cancel(context.Background(), "default", dispatcher.CancelRequest{Run: "r"}); err != nil {
			t.Fatal(err)
		}
		no(409, "was cancelled", fine)
		all := w.Audit("edit")
		for _, a := range all {
			if a.Allowed || a.Detail == "" || strings.Contains(a.Detail, "4111") {
				t.Errorf("audited %+v", a)
			}
		}
		if l := w.Letter(id); len(all) != refused || s.N() != 1 || l.State != schemas.LetterActive {
			t.Errorf("%d refusals audited of %d, %d executions, the letter is %s", len(all), refused, s.N(), l.State)
		}
		w.Verify()
	})
}

// An effect that may have happened is not asked for again under another key.
func TestAnUnknownOutcomeIsResolvedBeforeItIsEdited(t *testing.T) {
	silent := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		if strings.Contains(string(in.Arguments), "14") {
			return "paid", nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	worldtest.Bubble(t, editTools, map[string]function.Func{"pay": silent}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() { w.Config += "dead_letters: { allow_edit: true }\n" })
		w.Publish(wrongCall)
		o := w.Outcome(wrongCall, 10*time.Second)
		w.Drained(10 * time.Second)
		q := control.EditQuery{ID: dedupe.LetterID(o.Call, 0), EditOptions: deadletter.EditOptions{Set: setAmount("14"), Why: "x"}}
		if f := w.Refused(control.VerbEdit, q); o.Status != schemas.UnknownOutcome || f.Code != 409 || !strings.Contains(f.Try, "dlq resolve") {
			t.Errorf("%s: %+v", o.Status, f)
		}
		worldtest.Ask[control.Done](w, control.VerbResolve, control.ResolveQuery{ID: q.ID, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.DidNotHappen}})
		if r := worldtest.Ask[control.EditReport](w, control.VerbEdit, q); !r.Published {
			t.Errorf("%+v", r)
		}
		if o := w.Outcome(editedCall(t, q.ID, strings.Replace(wrongArguments, "13", "14", 1)), 10*time.Second); o.Status != schemas.Succeeded {
			t.Errorf("%+v", o)
		}
	})
}

// The letter is never lost and the new call never runs twice, wherever the process ends:
// before the commit, after it, after the publish, and after the outcome.
func TestACrashInAnEditLosesNothingAndRunsNothingTwice(t *testing.T) {
	ask := func(w *worldtest.World, id string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		return w.Ctl.Ask(ctx, control.VerbEdit, control.EditQuery{ID: id, EditOptions: deadletter.EditOptions{Set: setAmount("14"), Why: "x"}}, &control.EditReport{})
	}
	cuts := map[string]func(w *worldtest.World, id string){
		"before the commit": func(w *worldtest.World, id string) {
			w.Again(func() { w.Commit = func(func() error) error { return errors.New("the disk is gone") } })
			if ask(w, id) == nil {
				w.T.Error("the edit was carried out without a commit")
			}
			w.Crash()
			w.Commit = nil
		},
		"before the publish": func(w *worldtest.World, id string) { crashIn(w, natstest.BeforeWrite, func() { _ = ask(w, id) }) },
		"after the publish":  func(w *worldtest.World, id string) { crashIn(w, natstest.AfterWrite, func() { _ = ask(w, id) }) },
		"after the outcome": func(w *worldtest.World, id string) {
			if err := ask(w, id); err != nil {
				w.T.Error(err)
			}
			w.Outcome(editedCall(w.T, id, strings.Replace(wrongArguments, "13", "14", 1)), 10*time.Second)
			w.Crash()
		},
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			editWorld(t, func(t *testing.T, w *worldtest.World, s *worldtest.Seen, id string) {
				next := editedCall(t, id, strings.Replace(wrongArguments, "13", "14", 1))
				cut(w, id)
				w.Start()
				if l := w.Letter(id); name == "before the commit" != (l.State == schemas.LetterActive) {
					t.Errorf("after the crash the letter is %s", l.State)
				}
				if err := ask(w, id); err != nil { // whoever had no answer asks again
					t.Errorf("the same edit again: %v", err)
				}
				o := w.Outcome(next, 30*time.Second)
				w.Drained(time.Minute)
				time.Sleep(5 * time.Minute)
				l := w.Letter(id)
				got := []any{s.Of(next), o.Status, l.State, l.EditedTo, len(w.Audit("edit"))}
				if want := []any{1, schemas.Succeeded, schemas.LetterResolved, o.Call, 1}; !reflect.DeepEqual(got, want) {
					t.Errorf("executions, outcome, letter, link and audits are %v, want %v", got, want)
				}
				w.Charged("r", 2, 2)
				w.Verify()
			})
		})
	}
}

// crashIn takes the process away at its first publish to the calls.
func crashIn(w *worldtest.World, kind natstest.Cut, do func()) {
	w.T.Helper()
	cut := w.Cut("tollgate.calls.", 1, kind)
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	w.CrashAt(cut, 5*time.Second)
	<-done
}

// While the server does not take it, the new call is owed; it goes out when it can.
func TestAnEditedCallIsOwedUntilItsStreamTakesIt(t *testing.T) {
	editWorld(t, func(t *testing.T, w *worldtest.World, s *worldtest.Seen, id string) {
		st, err := w.JS.Stream(context.Background(), "TOLLGATE_CALLS")
		if err != nil {
			t.Fatal(err)
		}
		c := st.CachedInfo().Config
		full := c
		full.MaxMsgSize = 10
		if _, err := w.JS.UpdateStream(context.Background(), full); err != nil {
			t.Fatal(err)
		}
		if r := edit(w, id, deadletter.EditOptions{Set: setAmount("14"), Why: "x"}); r.Published {
			t.Errorf("%+v", r)
		}
		time.Sleep(10 * time.Second)
		if d := worldtest.Ask[control.CallDetail](w, control.VerbCallShow, control.IDQuery{ID: worldtest.CallID(wrongCall)}); d.Owes != "edited call" || s.N() != 1 {
			t.Errorf("owes %q after %d executions", d.Owes, s.N())
		}
		if _, err := w.JS.UpdateStream(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		if o := w.Outcome(editedCall(t, id, strings.Replace(wrongArguments, "13", "14", 1)), 30*time.Second); o.Status != schemas.Succeeded {
			t.Errorf("%+v", o)
		}
		w.Verify()
	})
}
