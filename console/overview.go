package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/schemas"
)

var overviewRoutes = map[string]handler{"GET /{$}": overview}

// windows are what the charts may show.
var windows = []struct {
	Name string
	For  time.Duration
}{{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}}

// recently is what the tiles are about.
const recently = 5 * time.Minute

// overviewData is what the first page shows.
type overviewData struct {
	Status    control.Status
	Uptime    time.Duration
	Recent    control.HistoryPoint
	History   control.History
	Window    string
	Windows   []string
	Charts    []*chart
	Attention []pointed
	Replays   []*dedupe.Replay // the last few
	Unread    []string         // parts that did not answer, and why
}

// pointed is something to look at, and where one looks.
type pointed struct {
	control.Attention
	Href, Link string
}

// overview is how things stand and how they went. A part that does not answer fails
// alone: this page is looked at when something is broken.
func overview(v *visit) error {
	d := overviewData{}
	if err := v.ask(control.VerbStatus, control.Empty{}, &d.Status); err != nil {
		return err
	}
	window := windows[1]
	for _, w := range windows {
		d.Windows = append(d.Windows, w.Name)
		if w.Name == v.param("window") {
			window = w
		}
	}
	d.Window, d.Uptime = window.Name, time.Duration(d.Status.Runtime.UptimeMS)*time.Millisecond
	part := func(what string, err error) {
		if err != nil {
			d.Unread = append(d.Unread, what+": "+err.Error())
		}
	}
	var recent control.History
	part("the last five minutes", v.ask(control.VerbHistory, control.HistoryQuery{Window: recently, Step: recently}, &recent))
	part("the history", v.ask(control.VerbHistory, control.HistoryQuery{Window: window.For}, &d.History))
	var bulk control.ReplaysPage
	part("bulk replays", v.ask(control.VerbReplaysList, control.Empty{}, &bulk))
	d.Recent, d.Charts, d.Replays = recent.Whole, charts(&d.History), newest(bulk.Replays, 3)
	for _, a := range d.Status.Attention {
		d.Attention = append(d.Attention, point(a))
	}
	return v.show("overview", "Overview", d)
}

// newest are the last n bulk replays.
func newest(all []*dedupe.Replay, n int) []*dedupe.Replay {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *dedupe.Replay) int { return b.Created.Compare(a.Created) })
	return all[:min(n, len(all))]
}

// point says where what is to be looked at is found.
func point(a control.Attention) pointed {
	p := pointed{Attention: a}
	switch a.Kind {
	case control.UnknownOutcomes:
		p.Href, p.Link = "/dead?reason="+schemas.ReasonUnknownOutcome, "Find out, one by one"
	case control.OldLetter:
		p.Href, p.Link = "/dead", "The dead letters"
	case control.BreakerOpen:
		p.Href, p.Link = "/tools", "The tools"
	case control.ToolPaused:
		p.Href, p.Link = "/tools/"+url.PathEscape(a.Name), "The tool"
	case control.StreamFull:
		if p.Href, p.Link = "/tools", "The tools' backlogs"; strings.HasSuffix(a.Name, "_DLQ") {
			p.Href, p.Link = "/dead", "The dead letters"
		}
	default:
		p.Href, p.Link = "#health", "How it stands"
	}
	return p
}

// Share is how many of the outcomes are successes, in percent.
func (d overviewData) Share() string {
	if d.Recent.Total() == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(d.Recent.Outcomes[schemas.Succeeded])/float64(d.Recent.Total()))
}

// Rate is how many outcomes of a kind there were a second.
func (d overviewData) Rate(kind int) string {
	return perSecond(frequency(&d.Recent, kinds[kind].of))
}

// Took is a percentile of the time from publish to outcome.
func (d overviewData) Took(ms float64) string {
	if d.Recent.Timed == 0 {
		return "–"
	}
	return latency(ms)
}

// Restarted reports whether the window begins before what is remembered.
func (d overviewData) Restarted() bool { return d.History.Started.After(d.History.From) }

// Statuses are the columns of the table behind the charts.
func (overviewData) Statuses() []schemas.Status {
	var all []schemas.Status
	for _, k := range kinds {
		all = append(all, k.of...)
	}
	return all
}

// Backwards are the steps, the last first.
func (d overviewData) Backwards() []control.HistoryPoint {
	points := slices.Clone(d.History.Points)
	slices.Reverse(points)
	return points
}
