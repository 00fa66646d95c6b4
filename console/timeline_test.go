package console

import (
	"strings"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/schemas"
)

// A replay publishes a call again: the attempts before it are drawn before it, one after
// the other, and the time it lay dead is told as that and not as a wait.
func TestTheTimelineOfAReplayedCallBeginsWithItsFirstLife(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	failed := schemas.Attempt{N: 1, Started: at(1), Ended: at(2), Code: "HTTP_503", Class: "transient"}
	again := schemas.Attempt{N: 1, Generation: 1, Started: at(9), Ended: at(10)}
	d := &control.CallDetail{Timeline: []schemas.Attempt{failed, again}}
	d.Published, d.Settled, d.State, d.Status = at(8), at(10), "done", schemas.Succeeded
	d.Origin.Time = at(0)
	p := draw(d, false, at(20))
	if want := "published; waited 1.0 s; attempt 1 ✗ HTTP_503 1.0 s; dead, and replayed 7.0 s later; attempt 1 of replay 1 ✓ 1.0 s; done succeeded."; p.Text != want {
		t.Errorf("%s\nwant %s", p.Text, want)
	}
	for i := 1; i < len(p.Rows); i++ {
		if p.Rows[i].X < p.Rows[i-1].X {
			t.Errorf("%q is drawn before %q", p.Rows[i].Label, p.Rows[i-1].Label)
		}
	}
	if first := p.Rows[2]; !strings.HasPrefix(first.Label, "attempt 1 ") || first.X < lineWide/20 || first.X > lineWide/5 {
		t.Errorf("%+v", first)
	}
}
