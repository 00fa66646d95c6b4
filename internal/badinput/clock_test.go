package badinput

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// steppedClocks moves the clock between two lives of a dispatcher on the same files:
// one lives now, the other in a bubble whose clock stands in the year 2000.
func steppedClocks(t *testing.T, b *table) {
	for _, c := range []struct {
		name          string
		first, second func(*testing.T, func(*testing.T))
		passes        bool // the time of what waits has come
	}{
		{"a clock stepped forwards by 26 years", natstest.Bubble, present, true},
		{"a clock stepped back by 26 years", present, natstest.Bubble, false},
	} {
		dir := t.TempDir()
		var s worldtest.Seen
		m := worldtest.Msg{Tool: "once", Run: "clock", Key: "k"}
		waiting := worldtest.Msg{Tool: "flaky", Run: "clock", Key: "w"}
		c.first(t, func(t *testing.T) {
			w := clockWorld(t, dir, &s)
			if o := w.Do(m); o.Status != schemas.Succeeded {
				t.Fatalf("before the step: %s", o.Status)
			}
			w.Publish(waiting)
			w.Until(patience, "the other waits for its retry", func() bool { return s.Of(waiting) == 1 && w.Messages("TOLLGATE_RETRY") > 0 })
			w.Stop()
		})
		c.second(t, func(t *testing.T) {
			w := clockWorld(t, dir, &s)
			again := w.Do(m)
			fresh := w.Do(worldtest.Msg{Tool: "once", Run: "later", Key: "k"})
			if s.Of(m) != 1 || fresh.Status != schemas.Succeeded {
				t.Errorf("%s: the call ran %d times; a new one ends %s", c.name, s.Of(m), fresh.Status)
			}
			where := fmt.Sprintf("the same key: %s, repeated %t; a new call: %s; a call that waited: ", ended(again), again.Repeated, fresh.Status)
			if c.passes {
				where += ended(w.Outcome(waiting, patience))
			} else {
				time.Sleep(patience)
				where += "it waits for its time, and is in the ledger"
				if o := w.Stored(waiting); o != nil || w.App.Ledger().Stats().Live != 1 {
					t.Errorf("%s: the waiting call has vanished or ended: %+v", c.name, o)
				}
			}
			if s.Of(waiting) != 1 {
				t.Errorf("%s: the waiting call ran %d times", c.name, s.Of(waiting))
			}
			b.add(t, "clock", c.name, where)
			w.Stop()
		})
	}
}

func present(t *testing.T, f func(*testing.T)) { t.Run("now", f) }

// clockWorld is a dispatcher on the files in dir.
func clockWorld(t *testing.T, dir string, s *worldtest.Seen) *worldtest.World {
	t.Helper()
	w := worldtest.Prepare(t, "  once: { function: once, effect: write, policies: [quick] }\n  flaky: { function: flaky, effect: read, dependency: free, policies: [slow] }\n"+free, map[string]function.Func{
		"once": func(_ context.Context, in dispatcher.Invocation) (any, error) { s.Add(in); return "ok", nil },
		"flaky": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in); in.Attempt == 1 {
				return nil, function.Transient("BUSY", "busy", 20*time.Second)
			}
			return "ok", nil
		},
	}, false)
	w.Config, w.Dir = strings.Replace(w.Config, w.Dir, dir, 1), dir
	w.Node = natstest.Server(t, filepath.Join(dir, "nats"))
	w.NC, w.JS = natstest.Connect(t, w.Node), natstest.JetStream(t, w.Node)
	w.Ctl.NATS = w.NC
	w.Start()
	t.Cleanup(w.Stop)
	return w
}
