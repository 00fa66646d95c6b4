package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tollgate/budget"
	"tollgate/control"
)

// burndown is how many attempts a run's root had left, over time.
type burndown struct {
	Steps   []burnStep
	Points  string // of the line
	Most    int    // what the top of the chart stands for
	From    time.Time
	To      time.Time
	Missing int // attempts whose calls are no longer known; they are taken as spent before all others
	Text    string
}

// burnStep is one change of what was left.
type burnStep struct {
	At   time.Time
	What string
	Call string // when it was a call's attempt
	Left int
}

// Size of the chart's drawing area.
const burnWidth, burnHeight = 640, 160

// burn draws the run's charges and grants. A limit is what it is now less what was
// granted since: nobody else raises one.
func burn(d *control.RunDetail, now time.Time) burndown {
	root := d.Run.Accounts[d.Root]
	limit := root.Limits.Attempts
	var steps []burnStep
	for _, g := range root.Grants {
		if g.Attempts > 0 {
			limit -= g.Attempts
			steps = append(steps, burnStep{At: g.At, What: fmt.Sprintf("%d granted by %s", g.Attempts, g.By), Left: g.Attempts})
		}
	}
	for _, c := range d.Charges {
		steps = append(steps, burnStep{At: c.At, What: "an attempt of " + c.Path, Call: c.Call, Left: -1})
	}
	slices.SortStableFunc(steps, func(a, b burnStep) int { return a.At.Compare(b.At) })
	b := burndown{From: d.Started, To: now, Missing: max(0, root.Attempts-len(d.Charges))}
	left := limit - b.Missing
	b.Most = max(left, 1)
	for i := range steps {
		left += steps[i].Left
		steps[i].Left = left
		b.Most = max(b.Most, left)
	}
	b.Steps = steps
	if len(steps) > 0 { // a run that was used yesterday is not drawn as a line until today
		if last := steps[len(steps)-1].At; now.Sub(last) > last.Sub(b.From) {
			b.To = last.Add(max(time.Second, last.Sub(b.From)/10))
		}
	}
	b.Points = b.line(limit - b.Missing)
	if root.Limits == (budget.Limits{}) {
		b.Text = "it was cancelled before anybody used it"
		return b
	}
	b.Text = fmt.Sprintf("%d of %d attempts left", left, root.Limits.Attempts)
	return b
}

// line is the steps as the points of a polyline: what is left holds until it changes.
func (b *burndown) line(left int) string {
	var p strings.Builder
	span := max(1, b.To.Sub(b.From).Seconds())
	point := func(at time.Time, left int) {
		x := min(1, max(0, at.Sub(b.From).Seconds()/span)) * burnWidth
		y := (1 - float64(max(0, left))/float64(b.Most)) * burnHeight
		fmt.Fprintf(&p, "%.1f,%.1f ", x, y)
	}
	point(b.From, left)
	for _, s := range b.Steps {
		point(s.At, left)
		left = s.Left
		point(s.At, left)
	}
	point(b.To, left)
	return strings.TrimSpace(p.String())
}
