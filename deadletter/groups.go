package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Group is letters that died of the same thing.
type Group struct {
	ID      string    `json:"id"`
	By      string    `json:"by"`
	Count   int       `json:"count"`
	Tool    string    `json:"tool,omitempty"` // "" when the group spans several
	Reason  string    `json:"reason,omitempty"`
	Code    string    `json:"code,omitempty"`
	Class   string    `json:"class,omitempty"`
	Error   string    `json:"error,omitempty"` // of the newest, its beginning
	Newest  string    `json:"newest"`          // its ID
	Runs    int       `json:"runs"`
	Tools   int       `json:"tools"`
	Unknown int       `json:"unknown,omitempty"` // of the letters: the effect may have happened
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Trend   []int     `json:"trend"`          // letters in each of the last 24 hours, this one last
	Note    string    `json:"note,omitempty"` // an operator's, while a letter that it was about is open
}

// trendHours is how far a trend goes back.
const trendHours = 24

// maxGroupError bounds the error that a group shows, so that many groups fit a message.
const maxGroupError = 600

// gathered is a group under way.
type gathered struct {
	Group
	newest *entry
	runs   map[runOf]struct{}
	tools  map[string]struct{}
}

type runOf struct {
	tenant string
	run    unique.Handle[string]
}

// groupKeys say what letters can be grouped by.
var groupKeys = map[string]func(e *entry, k *kind) string{
	"fingerprint": func(_ *entry, k *kind) string { return k.fingerprint },
	"tool":        func(_ *entry, k *kind) string { return k.tool },
	"reason":      func(_ *entry, k *kind) string { return k.reason },
	"code":        func(_ *entry, k *kind) string { return k.code },
	"class":       func(_ *entry, k *kind) string { return k.class },
	"run":         func(e *entry, _ *kind) string { return e.run.Value() },
	"hour":        func(e *entry, _ *kind) string { return e.died.UTC().Truncate(time.Hour).Format(time.RFC3339) },
}

// GroupKeys are what letters can be grouped by.
var GroupKeys = []string{"fingerprint", "tool", "reason", "run", "class", "code", "hour"}

// Groups returns the letters that match in groups, the largest first, hours the
// newest first; and how many groups and letters there are in all. The filter's Limit
// bounds the groups; 0 is 200.
func (x *Index) Groups(ctx context.Context, f Filter, by string) (groups []Group, all, letters int, err error) {
	by = cmp.Or(by, "fingerprint")
	key := groupKeys[by]
	if key == nil {
		return nil, 0, 0, fmt.Errorf("cannot group by %q; try one of %s", by, strings.Join(GroupKeys, ", "))
	}
	m, err := f.compile()
	if err != nil {
		return nil, 0, 0, err
	}
	entries, err := x.letters(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	now, found := time.Now(), map[string]*gathered{}
	for e := range matching(entries, m) {
		k := e.kind.Value()
		id := key(e, &k)
		g := found[id]
		if g == nil {
			g = &gathered{Group: Group{ID: id, By: by, Tool: k.tool, Reason: k.reason, Code: k.code, Class: k.class, First: e.died, Trend: make([]int, trendHours)},
				runs: map[runOf]struct{}{}, tools: map[string]struct{}{}}
			found[id] = g
		}
		g.add(e, &k, now)
		letters++
	}
	groups = sorted(found, by)
	if by == "fingerprint" {
		open := openRemarks(entries, x.ledger.Remarks())
		for i := range groups {
			groups[i].Note = open[groups[i].ID]
		}
	}
	return groups[:min(len(groups), cmp.Or(f.Limit, 200))], len(groups), letters, nil
}

func sorted(found map[string]*gathered, by string) []Group {
	out := make([]Group, 0, len(found))
	for _, g := range found {
		g.Runs, g.Tools, g.Newest = len(g.runs), len(g.tools), dedupe.LetterID(g.newest.fate.call, g.newest.generation)
		g.Error = g.newest.message
		if len(g.Error) > maxGroupError {
			g.Error = strings.ToValidUTF8(g.Error[:maxGroupError], "") + "…"
		}
		out = append(out, g.Group)
	}
	slices.SortFunc(out, func(a, b Group) int {
		if by == "hour" {
			return cmp.Compare(b.ID, a.ID)
		}
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (g *gathered) add(e *entry, k *kind, now time.Time) {
	g.Count++
	g.runs[runOf{k.tenant, e.run}] = struct{}{}
	g.tools[k.tool] = struct{}{}
	if g.newest == nil || !e.died.Before(g.Last) {
		g.Last, g.newest = e.died, e
	}
	if e.died.Before(g.First) {
		g.First = e.died
	}
	if k.reason == schemas.ReasonUnknownOutcome {
		g.Unknown++
	}
	count(g.Trend, e.died, now)
	for _, same := range []struct {
		have *string
		now  string
	}{{&g.Tool, k.tool}, {&g.Reason, k.reason}, {&g.Code, k.code}, {&g.Class, k.class}} {
		if *same.have != same.now {
			*same.have = ""
		}
	}
}

// count counts what happened at an instant into the hours before now.
func count(hours []int, at, now time.Time) {
	if ago := int(now.Sub(at) / time.Hour); ago >= 0 && ago < len(hours) {
		hours[len(hours)-1-ago]++
	}
}

// openRemarks are the notes on groups, of which a letter that was there when the note
// was made is still to be dealt with: a note is about those, and over with them.
func openRemarks(entries []*entry, remarks map[string]dedupe.Remark) map[string]string {
	open := map[string]string{}
	if len(remarks) == 0 {
		return open
	}
	for _, e := range entries {
		group := e.kind.Value().fingerprint
		r, noted := remarks[group]
		if !noted || e.gone.Load() || e.died.After(r.At) {
			continue
		}
		if state, _ := e.state(); state == schemas.LetterActive || state == schemas.LetterReplaying {
			open[group] = note(r.By, r.Text, "")
		}
	}
	return open
}

// Stats says how many letters there are, and of what.
type Stats struct {
	Counts
	ByReason map[string]int `json:"by_reason"` // of the active ones
	ByTool   map[string]int `json:"by_tool"`
	ByClass  map[string]int `json:"by_class"`
	Groups   int            `json:"groups"`
	Newest   time.Time      `json:"newest,omitzero"` // letter of any state
	Trend    []int          `json:"trend"`           // letters in each of the last 24 hours, whatever became of them
}

// Stats counts the letters that match; without a state it looks at all, and at the
// active ones more closely.
func (x *Index) Stats(ctx context.Context, f Filter) (Stats, error) {
	s := Stats{ByReason: map[string]int{}, ByTool: map[string]int{}, ByClass: map[string]int{}, Trend: make([]int, trendHours)}
	f.State = cmp.Or(f.State, "all")
	m, err := f.compile()
	if err != nil {
		return s, err
	}
	entries, err := x.letters(ctx)
	if err != nil {
		return s, err
	}
	now, groups := time.Now(), map[string]bool{}
	for e, state := range matching(entries, m) {
		s.Counts.add(e)
		count(s.Trend, e.died, now)
		if e.died.After(s.Newest) {
			s.Newest = e.died
		}
		if state != schemas.LetterActive {
			continue
		}
		k := e.kind.Value()
		s.ByReason[k.reason]++
		s.ByTool[k.tool]++
		s.ByClass[cmp.Or(k.class, "none")]++
		groups[k.fingerprint] = true
	}
	s.Groups = len(groups)
	return s, nil
}
