package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// B65: what cannot be read is one letter each that names the field and keeps the
// bytes; it stops nobody behind it.
func TestB65UnparseableRequestsBecomeLettersAndStopNobody(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		drop := func(name string) func(*nats.Msg) {
			return func(m *nats.Msg) { m.Header.Del(name); delete(m.Header, name) }
		}
		set := func(name, v string) func(*nats.Msg) { return func(m *nats.Msg) { m.Header[name] = []string{v} } }
		body := func(b string) func(*nats.Msg) { return func(m *nats.Msg) { m.Data = []byte(b) } }
		bad := map[string]struct {
			field string
			spoil func(*nats.Msg)
		}{
			"empty":      {"body", body("")},
			"null":       {"body", body("null")},
			"array":      {"body", body("[]")},
			"truncated":  {"body", body(`{"a":`)},
			"trailing":   {"body", body(`{"a":1} {}`)},
			"deep":       {"body", body(strings.Repeat("[", 900<<10))},
			"deep-obj":   {"body", body(strings.Repeat(`{"a":`, 150<<10))},
			"binary":     {"body", body("\xff\xfe\x00")},
			"version":    {schemas.HeaderVersion, set(schemas.HeaderVersion, "99")},
			"no-key":     {schemas.HeaderKey, drop(schemas.HeaderKey)},
			"no-run":     {schemas.HeaderRun, drop(schemas.HeaderRun)},
			"no-date":    {schemas.HeaderDeadline, drop(schemas.HeaderDeadline)},
			"tomorrow":   {schemas.HeaderDeadline, set(schemas.HeaderDeadline, "tomorrow")},
			"no-offset":  {schemas.HeaderDeadline, set(schemas.HeaderDeadline, "2031-01-01T00:00:00")},
			"two-keys":   {schemas.HeaderKey, func(m *nats.Msg) { m.Header[schemas.HeaderKey] = []string{"a", "b"} }},
			"run":        {schemas.HeaderRun, set(schemas.HeaderRun, "a//b")},
			"attempts":   {schemas.HeaderRunAttempts, set(schemas.HeaderRunAttempts, "-1")},
			"big-header": {"headers", set("X-Big", strings.Repeat("x", 20<<10))},
		}
		i := 0
		for name, c := range bad {
			n := worldtest.Msg{Tool: "look.up", Run: "r", Key: name}.Build()
			c.spoil(n)
			if _, err := w.JS.PublishMsg(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			i++
			good := worldtest.Msg{Tool: "look.up", Run: "good", Key: strconv.Itoa(i)}
			w.Publish(good)
			if o := w.Outcome(good, time.Second); o.Status != schemas.Succeeded {
				t.Errorf("behind %s: %s", name, o.Status)
			}
			l := w.LettersOf("")
			if len(l) != i {
				t.Fatalf("%s: %d letters, want %d", name, len(l), i)
			}
			d := worldtest.Ask[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: l[0].ID})
			if d.Reason != schemas.ReasonMalformed || d.Code != schemas.CodeMalformed || !strings.Contains(strings.ToLower(d.Message), strings.ToLower(c.field)) {
				t.Errorf("%s: %s %s %q, want the field %s", name, d.Reason, d.Code, d.Message, c.field)
			}
			if name == "binary" { // JSON cannot show it; the stream holds it
				d.Arguments = string(n.Data)
			}
			if shown := d.Arguments; d.ArgsBytes == 0 && shown != string(n.Data) || d.ArgsBytes != 0 && (d.ArgsBytes != len(n.Data) || !strings.HasPrefix(string(n.Data), shown) || shown == "") {
				t.Errorf("%s: %d bytes shown of %d, sent were %d", name, len(shown), d.ArgsBytes, len(n.Data))
			}
			if kept := letterBody(w, d.Sequence); !bytes.Equal(kept, n.Data) {
				t.Errorf("%s: the stream holds %d bytes, sent were %d", name, len(kept), len(n.Data))
			}
		}
		if s.N() != len(bad) {
			t.Errorf("%d executed, good ones were %d", s.N(), len(bad))
		}
		if err := w.Ctl.Ask(t.Context(), control.VerbRunShow, control.RunQuery{Run: "r"}, &control.RunDetail{}); err == nil {
			t.Error("a malformed message opened an account")
		}
		w.Verify()
	})
}

// body returns the body of a letter as the stream holds it.
func letterBody(w *worldtest.World, seq uint64) []byte {
	w.T.Helper()
	st, err := w.JS.Stream(context.Background(), "TOLLGATE_DLQ")
	if err != nil {
		w.T.Fatal(err)
	}
	m, err := st.GetMsg(context.Background(), seq)
	if err != nil {
		w.T.Fatal(err)
	}
	return m.Data
}

// B66: a result too large to give on is terminal, with size and hash; the work is
// not done again, and nobody else on the connection notices.
func TestB66AnOversizeResultIsNotRepeated(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  big: { function: big, effect: write, policies: [quick] }
  brim: { function: brim, effect: write, policies: [quick] }
  work: { function: work, effect: read, concurrency: 8, policies: [quick] }
`, map[string]function.Func{
			"big": func(_ context.Context, in dispatcher.Invocation) (any, error) {
				s.Add(in)
				return strings.Repeat("x", 3<<19), nil
			},
			"brim": func(_ context.Context, in dispatcher.Invocation) (any, error) {
				s.Add(in)
				return strings.Repeat("\x01", 700<<10), nil
			},
			"work": sleeps(&worldtest.Seen{}, time.Second),
		})
		var lost atomic.Int64
		w.App.Conn().SetDisconnectErrHandler(func(*nats.Conn, error) { lost.Add(1) })
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if o := w.Do(worldtest.Msg{Tool: "work", Run: "r", Key: strconv.Itoa(i)}); o.Status != schemas.Succeeded {
					t.Errorf("another call: %s", o.Status)
				}
			})
		}
		for _, tool := range []string{"big", "brim"} {
			m := worldtest.Msg{Tool: tool, Run: "w", Key: "k"}
			o := w.Do(m)
			stored := w.Outcome(m, 5*time.Second)
			if o.Status != schemas.Failed || stored.ID != o.ID || o.Code() != schemas.CodeResultTooLarge || !strings.Contains(o.Error.Message, "SHA-256") {
				t.Errorf("%s: %s %+v", tool, o.Status, o.Error)
			}
			if again := w.Do(m); !again.Repeated || again.ID != o.ID {
				t.Errorf("%s again: %s", tool, again.Status)
			}
		}
		wg.Wait()
		time.Sleep(time.Second)
		if s.N() != 2 || lost.Load() != 0 {
			t.Errorf("%d executed, %d disconnects", s.N(), lost.Load())
		}
		if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Owed != 0 || !st.Ready {
			t.Errorf("status %+v", st)
		}
		w.Verify()
	})
}

// B68: duplicate keys are refused at any depth; keys that differ in case are two
// keys and reach the tool as they are.
func TestB68DuplicateKeysAreRefusedAndCaseIsKept(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, "  pay: { function: echo, effect: write, policies: [quick] }\n", map[string]function.Func{"echo": echo(&s)})
		for i, body := range []string{`{"amount":1,"amount":1000}`, `{"a":[{"b":1,"b":2}]}`, `{"a":1,"\u0061":2}`, `{"a":{"b":{}},"c":{"d":1,"d":1}}`} {
			if o := w.Do(worldtest.Msg{Tool: "pay", Run: "r", Key: strconv.Itoa(i), Body: body}); o.Status != schemas.Rejected || o.Code() != schemas.CodeMalformed {
				t.Errorf("%s: %s %s", body, o.Status, o.Code())
			}
		}
		if s.N() != 0 {
			t.Errorf("%d executed", s.N())
		}
		variants := `{"to":"a", "To":"b","TO" : "c"}`
		if o := w.Do(worldtest.Msg{Tool: "pay", Run: "r", Key: "case", Body: variants}); o.Status != schemas.Succeeded || string(s.Calls[0].Arguments) != variants {
			t.Errorf("case variants: %s, the tool got %s", o.Status, s.Calls[0].Arguments)
		}
	})
}

// B69: a name that is no tool is never used in a subject; its letter stands under a
// fixed one. Nobody else's subjects are touched.
func TestB69AnIllegalNameNeverGetsIntoASubject(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		stray, err := w.NC.SubscribeSync(">")
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"a$b", "look.up!", "*", ">", strings.Repeat("x", 300), "a.b.c.d.e.f.g.h.i", "größe", "DEAD"} {
			n := worldtest.Msg{Tool: name, Run: "r", Key: strconv.Itoa(i)}.Build()
			if err := w.NC.PublishMsg(n); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for _, tenant := range []string{"Big", "a b"[:1] + "$", strings.Repeat("t", 33)} {
			if err := w.NC.PublishMsg(worldtest.Msg{Tenant: tenant, Tool: "look.up", Run: "r", Key: "t"}.Build()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		if n := w.Messages("TOLLGATE_CALLS", ">"); n != 0 || s.N() != 0 {
			t.Errorf("%d messages left, %d executed", n, s.N())
		}
		letters := map[string]int{}
		for _, l := range w.LettersOf("") {
			letters[l.Tenant+" "+l.Tool+" "+l.Reason]++
		}
		if letters["default _invalid malformed"] < 5 || letters["_invalid look.up malformed"] != 3 {
			t.Errorf("letters %v", letters)
		}
		for {
			m, err := stray.NextMsg(time.Millisecond)
			if err != nil {
				break
			}
			legal := false
			for _, p := range []string{"tollgate.calls.", "tollgate.dlq.", "tollgate.results.", "tollgate.ctl.", "$JS.", "$KV.", "_INBOX.", "$SRV."} {
				legal = legal || strings.HasPrefix(m.Subject, p)
			}
			if !legal || strings.HasPrefix(m.Subject, "tollgate.dlq.") && strings.ContainsAny(m.Subject, "*>$! ") {
				t.Errorf("published to %q", m.Subject)
			}
		}
	})
}

// B70: a panic of a tool costs its attempt and nothing else.
func TestB70APanicCostsAnAttemptAndNoSlot(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		var log lockedBuffer
		w := worldtest.New(t, `  pay: { function: boom, effect: write, concurrency: 2, dependency: free, policies: [quick] }
  look: { function: boom, effect: read, concurrency: 2, dependency: free, policies: [quick] }
`+free, map[string]function.Func{"boom": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in); strings.Contains(string(in.Arguments), "good") || in.Attempt > 2 {
				return "ok", nil
			}
			panic("payload of doom")
		}})
		w.Stop()
		w.Log = &log
		w.Start()
		for i := range 4 {
			if o := w.Do(worldtest.Msg{Tool: "pay", Run: "r", Key: strconv.Itoa(i)}); o.Status != schemas.UnknownOutcome || o.Code() != schemas.CodePanic {
				t.Errorf("pay %d: %s %s", i, o.Status, o.Code())
			}
			if o := w.Do(worldtest.Msg{Tool: "look", Run: "r", Key: strconv.Itoa(i)}); o.Status != schemas.Succeeded || len(o.Attempts) != 3 {
				t.Errorf("look %d: %s after %d", i, o.Status, len(o.Attempts))
			}
		}
		for _, tool := range []string{"pay", "look"} {
			if o := w.Do(worldtest.Msg{Tool: tool, Run: "r", Key: "good", Body: `{"good":1}`}); o.Status != schemas.Succeeded {
				t.Errorf("%s: %s", tool, o.Status)
			}
			if d := worldtest.Ask[control.ToolDetail](w, control.VerbToolShow, control.ToolQuery{Tool: tool}); d.Running != 0 {
				t.Errorf("%s: %d slots taken", tool, d.Running)
			}
		}
		for _, l := range w.LettersOf("") {
			d := worldtest.Ask[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: l.ID})
			if text := fmt.Sprintf("%+v %+v", d, d.Outcome); strings.Contains(text, "goroutine") || strings.Contains(text, "doom") {
				t.Errorf("the letter shows the stack: %s", text)
			}
		}
		if !strings.Contains(log.String(), "payload of doom") || !strings.Contains(log.String(), "scenario_b_hostile_test.go") {
			t.Error("the log does not show the panic and its stack")
		}
		w.Verify()
	})
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// B93: a tool's secrets are in no log, letter, result, list or stream, even when the
// tool echoes them; a replay still has them.
func TestB93SecretsAreNowhereToBeFound(t *testing.T) {
	t.Setenv("TOLLGATE_TEST_TOKEN", "s3cr3t-77")
	t.Setenv("TOLLGATE_TEST_KEY", "k-88-secret")
	t.Setenv("TOLLGATE_TEST_QUERY", "t-99-secret")
	var mu sync.Mutex
	authorised := 0
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Authorization") == "Bearer s3cr3t-77" && r.Header.Get("X-Api-Key") == "k-88-secret" && r.URL.Query().Get("token") == "t-99-secret" {
			authorised++
		}
		rw.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(rw, "boom: %s %s %s", r.Header.Get("authorization"), r.Header.Get("x-api-key"), r.URL)
	}))
	defer srv.Close()
	var log lockedBuffer
	w := worldtest.New(t, fmt.Sprintf(`  leaky: { http: { url: "%s/?token=${TOLLGATE_TEST_QUERY}", headers: { Authorization: "Bearer ${TOLLGATE_TEST_TOKEN}", X-Api-Key: "${TOLLGATE_TEST_KEY}" } }, effect: read, dependency: free, policies: [quick] }
  gone: { http: { url: "http://127.0.0.1:1/?token=${TOLLGATE_TEST_QUERY}", headers: { Authorization: "Bearer ${TOLLGATE_TEST_TOKEN}" } }, effect: read, dependency: free, policies: [quick] }
`, srv.URL)+free, nil)
	w.Stop()
	w.Log = &log
	w.Start()
	stray, err := w.NC.SubscribeSync("tollgate.>")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"leaky", "gone"} {
		m := worldtest.Msg{Tool: tool, Run: "r", Key: "k"}
		if o := w.Do(m); o.Status != schemas.Exhausted {
			t.Errorf("%s: %s %s", tool, o.Status, o.Code())
		}
		time.Sleep(100 * time.Millisecond)
		worldtest.Ask[control.Done](w, control.VerbReplay, control.ReplayQuery{ID: worldtest.CallID(m), ReplayOptions: deadletter.ReplayOptions{Why: "test"}})
		w.Outcome(m, 20*time.Second, 1)
		worldtest.Ask[map[string]any](w, control.VerbCallShow, control.IDQuery{ID: worldtest.CallID(m)})
		worldtest.Ask[map[string]any](w, control.VerbLetterShow, control.IDQuery{ID: worldtest.CallID(m)})
	}
	worldtest.Ask[map[string]any](w, control.VerbToolsList, control.Empty{})
	worldtest.Ask[map[string]any](w, control.VerbStatus, control.Empty{})
	time.Sleep(200 * time.Millisecond)
	if authorised != 8 {
		t.Errorf("%d of 8 requests carried the secrets, the replay's included", authorised)
	}
	var all bytes.Buffer
	seen := 0
	for {
		m, err := stray.NextMsg(50 * time.Millisecond)
		if err != nil {
			break
		}
		seen++
		fmt.Fprintln(&all, m.Subject, m.Header, string(m.Data))
	}
	// the answers of the control service go to inboxes: ask once more, in the open
	for _, verb := range []string{control.VerbToolsList, control.VerbStatus, control.VerbLetterList, control.VerbCallsList} {
		r, err := w.NC.Request("tollgate.ctl."+verb, []byte("{}"), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(r.Data)
	}
	for _, tool := range []string{"leaky", "gone"} {
		for _, verb := range []string{control.VerbCallShow, control.VerbLetterShow} {
			r, err := w.NC.Request("tollgate.ctl."+verb, []byte(`{"id":"`+worldtest.CallID(worldtest.Msg{Tool: tool, Run: "r", Key: "k"})+`"}`), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(r.Data)
		}
	}
	_, _ = io.WriteString(&all, log.String())
	if seen < 10 || log.String() == "" {
		t.Fatalf("%d messages and %d bytes of log are too few to look at", seen, len(log.String()))
	}
	for _, secret := range []string{"s3cr3t-77", "k-88-secret", "t-99-secret"} {
		if i := strings.Index(all.String(), secret); i >= 0 {
			t.Errorf("%s is in %q", secret, all.String()[max(0, i-200):i+len(secret)])
		}
	}
	w.Verify()
}

// A header in which a server speaks to its clients, on a message without a body,
// makes a client take the message for the server's word: it was never seen, never
// settled, and a thousand of them blocked a tool. As a letter it hid all later ones.
func TestAMessageThatLooksLikeTheServersWordIsSettled(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, _ := budgetWorld(t)
		for _, status := range []string{"100", "404", "408", "409", "503"} {
			n := nats.NewMsg("tollgate.calls.default.look.up")
			n.Header.Set("Status", status)
			if _, err := w.JS.PublishMsg(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			dead := worldtest.Msg{Lane: schemas.Jobs, Tool: "look.busy", Run: "r", Key: status, Header: map[string]string{"Status": status}}
			w.Publish(dead)
			w.Outcome(dead, 30*time.Minute)
		}
		m := worldtest.Msg{Tool: "look.up", Run: "r", Key: "behind"}
		w.Publish(m)
		if o := w.Outcome(m, 5*time.Second); o.Status != schemas.Succeeded {
			t.Errorf("behind them: %s", o.Status)
		}
		if p := worldtest.Ask[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{}); p.Total != 10 {
			t.Errorf("%d letters listed, want five malformed and five exhausted", p.Total)
		}
		time.Sleep(time.Minute)
		if n := w.Messages("TOLLGATE_CALLS", ">"); n != 0 {
			t.Errorf("%d messages are left on the lane", n)
		}
		w.Verify()
	})
}

// A byte that is no UTF-8 in a header of the agent's own once made the ledger
// unreadable: nothing an agent sends may do that.
func TestAnyByteInAHeaderSurvivesTheLedger(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w, s := budgetWorld(t)
		waiting := worldtest.Msg{Tool: "look.busy", Run: "r", Key: "w", Header: map[string]string{"X-Own": "x\xff", schemas.HeaderPolicy: "slow"}}
		w.Publish(waiting)
		for s.N() == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		w.Crash()
		w.Start()
		o := w.Outcome(waiting, time.Minute)
		l := worldtest.Ask[schemas.Letter](w, control.VerbLetterShow, control.IDQuery{ID: o.Call})
		if o.Status != schemas.Exhausted || len(o.Attempts) != 4 || l.State != schemas.LetterActive {
			t.Errorf("%s after %d attempts, letter %+v", o.Status, len(o.Attempts), l)
		}
		bad := worldtest.Msg{Tool: "look.up", Run: "r", Key: "t", Header: map[string]string{schemas.HeaderToolCallID: "x\xff"}}
		if o := w.Do(bad); o.Code() != schemas.CodeMalformed {
			t.Errorf("a tool call ID that no JSON can carry: %s %s", o.Status, o.Code())
		}
		w.Verify()
	})
}
