package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

var deadRoutes = map[string]handler{"GET /dead": deadGroups, "POST /dead/note": deadGroupNote}

// groupsPage is what the page of groups shows.
type groupsPage struct {
	By     string
	Keys   []string // that can be grouped by
	Form   filterForm
	Groups []groupRow
	Count  int // of which the page may have a part
	Total  int
	Stats  control.LetterStats
	Trend  bars
	List   string // the letters of all of them
}

// groupRow is one group and where it leads.
type groupRow struct {
	deadletter.Group
	Name             string
	Trend            bars
	List, Replay     string // "": the group cannot be asked for by a filter
	Resolve, Discard string
	Newest           string
	Replayable       bool
}

// How many groups a page has, and may have.
const (
	someGroups = 100
	mostGroups = 500
)

// deadGroups shows what the dead letters died of.
func deadGroups(v *visit) error {
	q := v.r.URL.Query()
	p := groupsPage{By: cmp.Or(q.Get("by"), "fingerprint"), Keys: deadletter.GroupKeys}
	f, err := readFilter(q, v.cfg.Now())
	p.Form = newFilterForm(q, err)
	if err != nil {
		return v.showStatus(http.StatusBadRequest, "dead", "Dead letters", p)
	}
	asked := f
	if asked.Limit = wholeNumber(q, "limit"); asked.Limit == 0 || asked.Limit > mostGroups {
		asked.Limit = someGroups
	}
	var groups control.GroupsPage
	if err := v.ask(control.VerbGroups, control.GroupsQuery{Filter: asked, By: p.By}, &groups); err != nil {
		return err
	}
	if err := v.ask(control.VerbStats, deadletter.Filter{Tenant: f.Tenant}, &p.Stats); err != nil {
		return err
	}
	p.Count, p.Total, p.Trend, p.List = groups.Count, groups.Total, sparkline(p.Stats.Trend), at("/dead/list", filterQuery(f))
	for _, g := range groups.Groups {
		p.Groups = append(p.Groups, newGroupRow(g, f))
	}
	return v.show("dead", "Dead letters", p)
}

// newGroupRow finds the filter that takes a group's letters: the page's own, and what
// they have in common.
func newGroupRow(g deadletter.Group, f deadletter.Filter) groupRow {
	row := groupRow{Group: g, Name: cmp.Or(g.ID, "(none)"), Trend: sparkline(g.Trend), Newest: "/dead/" + url.PathEscape(g.Newest), Replayable: replayable(g.Reason)}
	if !within(&f, &g) {
		return row
	}
	q := filterQuery(f)
	row.List, row.Replay = at("/dead/list", q), at("/replay/new", q)
	q.Set("action", "resolve")
	row.Resolve = at("/dead/act", q)
	q.Set("action", "discard")
	row.Discard = at("/dead/act", q)
	return row
}

// within narrows a filter to a group and reports whether that can be said.
func within(f *deadletter.Filter, g *deadletter.Group) bool {
	if g.ID == "" {
		return false // such as letters without an error code
	}
	if g.By == "hour" {
		hour, err := time.Parse(time.RFC3339, g.ID)
		if hour.After(f.Since) {
			f.Since = hour
		}
		if end := hour.Add(time.Hour); f.Until.IsZero() || end.Before(f.Until) {
			f.Until = end
		}
		return err == nil
	}
	*map[string]*string{"fingerprint": &f.Group, "tool": &f.Tool, "reason": &f.Reason, "run": &f.Run, "class": &f.Class, "code": &f.Code}[g.By] = g.ID
	return true
}

// replayable tells whether a replay is what letters of a reason are for: what was refused
// is no call, and an unknown outcome is resolved first. Several reasons ("") may have some.
func replayable(reason string) bool {
	return reason != schemas.ReasonMalformed && reason != schemas.ReasonRejected && reason != schemas.ReasonUnknownOutcome
}

// deadGroupNote writes down what an operator knows of a group.
func deadGroupNote(v *visit) error {
	group, text := v.field("group"), v.field("text")
	if err := v.ask(control.VerbNote, control.NoteQuery{ID: group, Text: text}, &control.Done{}); err != nil {
		return err
	}
	done := "The note on " + group + " is taken away."
	if text != "" {
		done = "Noted on " + group + "."
	}
	return v.done(v.field("to"), done)
}

// Room says how much of the stream the letters take.
func (p groupsPage) Room() string {
	used := size(int64(p.Stats.Bytes))
	if p.Stats.MaxBytes <= 0 {
		return used
	}
	return fmt.Sprintf("%s of %s", used, size(p.Stats.MaxBytes))
}
