package e2e

import (
	"context"
	"encoding/json"
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

const readTool = `  look.up: { function: look, effect: read, policies: [quick, slow] }
`

// The thinnest path: publish, charge, tool, outcome; and the same key again.
func TestI1ACallGoesInAndOneOutcomeComesOut(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, readTool, map[string]function.Func{"look": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			return map[string]any{"found": true}, nil
		}})
		m := worldtest.Msg{Tool: "look.up", Run: "run-1/child", Key: "k1", Body: `{"b": 1,  "a": 2}`}
		w.Publish(m)
		o := w.Outcome(m, 5*time.Second)
		if o.Status != schemas.Succeeded || string(o.Structured) != `{"found":true}` || o.Budget.Attempts.Used != 1 {
			t.Fatalf("outcome %+v", o)
		}
		w.Publish(m)
		time.Sleep(time.Second)
		if again := w.Stored(m); !again.Repeated || again.ID != o.ID {
			t.Errorf("same key again: %+v", again)
		}
		if o := w.Do(m); !o.Repeated {
			t.Errorf("endpoint, same key: %+v", o)
		}
		if s.N() != 1 || string(s.Calls[0].Arguments) != m.Body {
			t.Errorf("the tool saw %d calls: %+v", s.N(), s.Calls)
		}
		other := m
		other.Body = `{"a":3,"b":1}`
		if o := w.Do(other); o.Code() != schemas.CodeKeyConflict {
			t.Errorf("same key, other arguments: %+v", o)
		}
		run := worldtest.Ask[control.RunDetail](w, control.VerbRunShow, control.RunQuery{Run: "run-1"})
		if run.Accounts["run-1"].Attempts != 1 || run.Accounts["run-1/child"].Attempts != 1 || len(run.Accounts) != 2 {
			t.Errorf("accounts %+v", run.Accounts)
		}
		st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{})
		if !st.Ready || st.Owed != 0 {
			t.Errorf("status %+v", st)
		}
	})
}

// A call that the endpoint completed (key and deadline left out) must still be a
// whole request when it is retried: its carrier once was refused as malformed.
func TestI12AnEndpointCallWithoutKeyAndDeadlineIsRetried(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, readTool, map[string]function.Func{"look": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in) < 3 {
				return nil, function.Transient("BUSY", "busy", 0)
			}
			return "found", nil
		}})
		n := worldtest.Msg{Tool: "look.up", Run: "r"}.Build()
		n.Subject = "tollgate.do.default.look.up"
		n.Header.Del(schemas.HeaderKey)
		n.Header.Del(schemas.HeaderDeadline)
		r, err := w.NC.RequestMsg(n, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var o schemas.Outcome
		if err := json.Unmarshal(r.Data, &o); err != nil || o.Status != schemas.Succeeded || s.N() != 3 {
			t.Errorf("%v: %s %s after %d executions", err, o.Status, o.Code(), s.N())
		}
		if p := worldtest.Ask[deadletter.Page](w, control.VerbLetterList, deadletter.Filter{}); p.Total != 0 {
			t.Errorf("letters: %+v", p.Letters)
		}
		w.Verify()
	})
}
