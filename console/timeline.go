package console

import (
	"fmt"
	"strings"
	"time"

	"tollgate/control"
	"tollgate/schemas"
)

// Sizes of the picture. Each part has a row of its own, so that no label can touch
// another; what is short is drawn this wide at least.
const (
	lineWide  = 600
	rowHigh   = 26
	leastWide = 6
	mostParts = 40 // of the attempts, the last ones
)

// timeline is a call's life as a picture: one row for each part, to scale.
type timeline struct {
	High   int
	Rows   []row
	Text   string
	Hidden int // earlier attempts that are not drawn
}

// row is one span or instant of it.
type row struct {
	Y, TextY int
	X, W     float64
	Class    string
	Label    string
}

// draw lays a call out between its publication and its end, or now.
func draw(d *control.CallDetail, open bool, now time.Time) (p timeline) {
	from, to := published(d), d.Settled
	if open || to.Before(from) {
		to = now
	}
	attempts := d.Timeline
	if n := len(attempts) - mostParts; n > 0 {
		p.Hidden, attempts = n, attempts[n:]
		from = attempts[0].Started
	}
	if d.Due.After(to) && open {
		to = d.Due
	}
	whole := max(time.Millisecond, to.Sub(from))
	add := func(class, label string, a, b time.Time) {
		x := min(1, max(0, float64(a.Sub(from))/float64(whole))) * lineWide
		w := max(leastWide, float64(b.Sub(a))/float64(whole)*lineWide)
		x = min(x, lineWide-leastWide)
		y := len(p.Rows) * rowHigh
		p.Rows = append(p.Rows, row{Y: y + 5, TextY: y + 18, X: round(x), W: round(min(w, lineWide-x)), Class: class, Label: label})
	}
	add("t-mark", "published", from, from)
	before, life := from, 0
	if p.Hidden > 0 {
		life = attempts[0].Generation
	}
	for _, a := range attempts {
		switch gap := a.Started.Sub(before); {
		case a.Generation > life:
			add("t-mark", fmt.Sprintf("dead, and replayed %s later", latency(float64(gap.Microseconds())/1000)), before, before)
		case gap > whole/200:
			add("t-wait", "waited "+latency(float64(gap.Microseconds())/1000), before, a.Started)
		}
		life = a.Generation
		end := a.Ended
		if end.IsZero() {
			end = now
		}
		add(attemptClass(a), attemptLabel(a), a.Started, end)
		before = end
	}
	switch {
	case d.State == "waiting":
		add("t-wait", "waits for its next attempt", before, to)
	case !open:
		add("t-mark", strings.TrimSpace(d.State+" "+string(d.Status)), to, to)
	}
	p.High = len(p.Rows) * rowHigh
	var words []string
	for _, r := range p.Rows {
		words = append(words, r.Label)
	}
	p.Text = strings.Join(words, "; ") + "."
	return p
}

// published is when a call began: a replay publishes it again, later.
func published(d *control.CallDetail) time.Time {
	from := d.Published
	if at := d.Origin.Time; !at.IsZero() && at.Before(from) {
		from = at
	}
	if len(d.Timeline) > 0 && d.Timeline[0].Started.Before(from) {
		from = d.Timeline[0].Started
	}
	return from
}

func attemptClass(a schemas.Attempt) string {
	switch {
	case a.Ended.IsZero():
		return "t-run"
	case a.Code == "" && a.Class == "":
		return "t-good"
	}
	return "t-bad"
}

func attemptLabel(a schemas.Attempt) string {
	name := fmt.Sprintf("attempt %d", a.N)
	if a.Reconcile {
		name = "reconcile hook"
	}
	if a.Generation > 0 {
		name += fmt.Sprintf(" of replay %d", a.Generation)
	}
	switch attemptClass(a) {
	case "t-run":
		return name + " runs"
	case "t-good":
		return name + " ✓ " + callData{}.Spent(a)
	}
	return name + " ✗ " + clip(40, visible(a.Code)) + " " + callData{}.Spent(a)
}
