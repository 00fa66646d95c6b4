package badinput

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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

// patience is how long anything may take on a busy machine.
const patience = 30 * time.Second

// place is a dispatcher with a good tool beside whatever else it serves.
type place struct {
	*worldtest.World
	good  *worldtest.Seen // what the good tool saw
	asked int             // good calls so far
}

// goodTool answers at once; it is a write that must not be repeated.
const goodTool = "  good: { function: good, effect: write, concurrency: 4, policies: [quick] }\n"

// free is a dependency that never holds a call back.
const free = "dependencies:\n  free: { breaker: off, quota: { ratio: 1, burst: 10000, refill_per_s: 1000 } }\n"

func newPlace(t *testing.T, tools string, fns map[string]function.Func) *place {
	t.Helper()
	p := &place{good: &worldtest.Seen{}}
	all := map[string]function.Func{"good": func(_ context.Context, in dispatcher.Invocation) (any, error) {
		p.good.Add(in)
		return "ok", nil
	}}
	for name, f := range fns {
		all[name] = f
	}
	p.World = worldtest.Prepare(t, goodTool+tools+free, all, false)
	p.Config = strings.NewReplacer("unserved_grace: 5s", "unserved_grace: 1s, grace: 500ms", "timeout: 3s", "timeout: 6s").Replace(p.Config)
	p.Sweep = 200 * time.Millisecond
	p.Start()
	t.Cleanup(p.Stop)
	return p
}

// serves fails unless a good call is still served, once.
func (p *place) serves(after string) {
	p.T.Helper()
	p.asked++
	m := worldtest.Msg{Tool: "good", Run: "good", Key: strconv.Itoa(p.asked)}
	if o := p.Do(m); o.Status != schemas.Succeeded || p.good.Of(m) != 1 {
		p.T.Errorf("after %s a good call ends %s and ran %d times", after, o.Status, p.good.Of(m))
	}
}

// ending is where a message ended: a new dead letter, an outcome, or a refusal.
func (p *place) ending(m worldtest.Msg, letters int) string {
	p.T.Helper()
	where := ""
	p.Until(patience, "the end of "+m.Run+" "+m.Key, func() bool {
		if o := p.Stored(m); o != nil {
			where = ended(o)
		} else if refusal := p.RefusalOf(m); refusal != nil {
			where = "refused: " + code(refusal)
		}
		if page := p.Letters(deadletter.Filter{}); page.Total > letters { // stored before the refusal is
			l := page.Letters[0]
			where = fmt.Sprintf("dead letter %s: %s: %s", l.Reason, l.Code, l.Message)
		}
		return where != ""
	})
	return where
}

// ended says how a call ended and how often it was tried.
func ended(o *schemas.Outcome) string {
	s := "outcome " + string(o.Status)
	if o.Error != nil {
		s += ": " + o.Error.Code
	}
	return fmt.Sprintf("%s, %d attempts, next action %s", s, len(o.Attempts), o.NextAction)
}

// publish gives the message to the server and returns its refusal, if it refuses.
func (p *place) publish(n *nats.Msg) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := p.JS.PublishMsg(ctx, n)
	return err
}

// sound fails unless the invariants hold on what is left behind.
func (p *place) sound() {
	p.T.Helper()
	p.Until(patience, "nothing is owed", func() bool {
		return worldtest.Ask[control.Status](p.World, control.VerbStatus, control.Empty{}).Owed == 0
	})
	p.Verify()
}
