package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// Every operator's decision tells how things stood before and after; one that is refused
// tells why, and that nothing has changed.
func TestTheAuditTellsBeforeAndAfter(t *testing.T) {
	var s worldtest.Seen
	tool := func(ctx context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		switch string(in.Arguments) {
		case `{"wait":1}`:
			return nil, worldtest.Busy(time.Minute)
		case `{"run":1}`:
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return "ok", nil
		}
		return nil, worldtest.Broken()
	}
	worldtest.Bubble(t, letterTool, map[string]function.Func{"tool": tool}, func(t *testing.T, w *worldtest.World) {
		letters := map[string]string{}
		for _, key := range []string{"replayed", "refused", "forged"} {
			m := worldtest.Msg{Tool: "look.up", Run: "r", Key: key, Deadline: 10 * time.Minute}
			w.Publish(m)
			letters[key] = dedupe.LetterID(w.Outcome(m, 10*time.Second).Call, 0)
		}
		w.Drained(10 * time.Second)
		audited := func(action string, want ...dedupe.Audit) {
			t.Helper()
			all := w.Audit(action)
			if len(all) != len(want) {
				t.Fatalf("%s: audited %+v, want %+v", action, all, want)
			}
			for i, a := range all {
				if x := want[i]; a.Allowed != x.Allowed || !strings.Contains(a.Target, x.Target) || a.Before != x.Before || a.After != x.After || !strings.Contains(a.Detail, x.Detail) || a.By != "test" {
					t.Errorf("%s: audited %+v, want %+v", action, a, x)
				}
			}
		}

		until := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "r"}).Accounts["r"].Limits.Deadline
		worldtest.Ask[control.RunDetail](w, control.VerbRunGrant, control.GrantQuery{Run: "r", Attempts: 2, Elapsed: time.Hour, Why: "x"})
		w.Refused(control.VerbRunGrant, control.GrantQuery{Run: "r/nobody", Attempts: 2, Why: "x"})
		audited("grant",
			dedupe.Audit{Allowed: true, Target: "run r", Before: "attempts 3 of 1000, side effects 0 of 1000, until " + until.Format(time.RFC3339),
				After: "attempts 3 of 1002, side effects 0 of 1000, until " + until.Add(time.Hour).Format(time.RFC3339)},
			dedupe.Audit{Target: "run r/nobody", Detail: "no such run"})

		w.Replay(letters["replayed"], deadletter.ReplayOptions{})
		w.Refused(control.VerbReplay, control.ReplayQuery{ID: letters["replayed"]})
		refusal := worldtest.Msg{Lane: schemas.Jobs, Tool: "look.up", Run: "not a run", Key: "k"}
		w.Publish(refusal)
		w.Until(10*time.Second, "the refusal's letter", func() bool { return w.Letters(deadletter.Filter{Reason: schemas.ReasonMalformed}).Total == 1 })
		malformed := w.Letters(deadletter.Filter{Reason: schemas.ReasonMalformed}).Letters[0].ID
		w.Refused(control.VerbReplay, control.ReplayQuery{ID: malformed})
		all := w.Audit("replay")
		if len(all) != 3 || all[0].Before != "active" || all[0].After != "replaying by generation 1, waiting" || all[1].Allowed || !strings.HasPrefix(all[1].Before, "replaying by generation 1") && all[1].Before != "resolved by generation 1, dead" || all[2].Allowed || all[2].Target != malformed {
			t.Errorf("replay: audited %+v", all)
		}

		pause := func(verb, why string) {
			worldtest.Ask[control.ToolDetail](w, verb, control.ToolQuery{Tool: "look.up", Why: why})
		}
		pause(control.VerbToolPause, "INC-1")
		pause(control.VerbToolPause, "INC-2")
		pause(control.VerbToolResume, "over")
		pause(control.VerbToolResume, "")
		audited("pause", dedupe.Audit{Allowed: true, Target: "tool look.up", Before: "served", After: "paused by test: INC-1"},
			dedupe.Audit{Allowed: true, Before: "paused by test: INC-1", After: "paused by test: INC-2"})
		audited("resume", dedupe.Audit{Allowed: true, Target: "tool look.up", Before: "paused by test: INC-2", After: "served"}, dedupe.Audit{Allowed: true, Before: "served", After: "served"})

		waits := worldtest.Msg{Tool: "look.up", Run: "w", Key: "waits", Body: `{"wait":1}`, Deadline: time.Hour}
		runs := worldtest.Msg{Tool: "look.up", Run: "w", Key: "runs", Body: `{"run":1}`, Deadline: time.Hour}
		s.Forget()
		w.Publish(waits)
		w.Publish(runs)
		w.Until(10*time.Second, "both were asked", func() bool { return s.N() == 2 })
		time.Sleep(100 * time.Millisecond)
		cancel := func(q dispatcher.CancelRequest) {
			if _, err := w.Ctl.Cancel(context.Background(), "default", q); err != nil {
				t.Error(err)
			}
		}
		cancel(dispatcher.CancelRequest{Call: worldtest.CallID(waits)})
		cancel(dispatcher.CancelRequest{Call: worldtest.CallID(runs)})
		w.Outcome(runs, 10*time.Second)
		cancel(dispatcher.CancelRequest{Call: worldtest.CallID(waits)})
		cancel(dispatcher.CancelRequest{Run: "w"})
		cancel(dispatcher.CancelRequest{Run: "w"})
		cancel(dispatcher.CancelRequest{Run: "nobody"})
		audited("cancel",
			dedupe.Audit{Allowed: true, Target: "call " + worldtest.CallID(waits), Before: "waiting", After: "cancelled"},
			dedupe.Audit{Allowed: true, Target: "call " + worldtest.CallID(runs), Before: "in_flight", After: "in_flight, not tried again"},
			dedupe.Audit{Target: "call " + worldtest.CallID(waits), Before: "cancelled", Detail: "ended"},
			dedupe.Audit{Allowed: true, Target: "run w", Before: "open", After: "cancelled"},
			dedupe.Audit{Allowed: true, Target: "run w", Before: "cancelled", After: "cancelled"},
			dedupe.Audit{Allowed: true, Target: "run nobody", Before: "unknown", After: "cancelled"})

		w.Refused(control.VerbResolve, control.ResolveQuery{ID: letters["refused"], ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.Happened, Result: json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`)}})
		audited("resolve", dedupe.Audit{Target: letters["refused"], Before: "active", Detail: "the result has"})
		forge(t, w, letters["forged"])
		audited("import", dedupe.Audit{Target: letters["forged"], Before: "absent", Detail: "different reasons"})
		w.Verify()
	})
}

// forge tries to bring in a letter whose headers tell another reason than its subject.
func forge(t *testing.T, w *worldtest.World, id string) {
	t.Helper()
	body, err := json.Marshal(control.IDQuery{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	m, err := w.Ctl.Send(context.Background(), control.VerbExport, nats.Header{}, body)
	if err != nil {
		t.Fatal(err)
	}
	m.Header.Set(schemas.HeaderReason, schemas.ReasonPoison)
	if _, err := w.Ctl.Send(context.Background(), control.VerbImport, m.Header, m.Data); err == nil {
		t.Error("a forged letter was imported")
	}
}
