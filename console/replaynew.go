package console

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/replays"
	"tollgate/schemas"
)

var replayNewRoutes = map[string]handler{"GET /replay/new": replayNew, "POST /replay/new": replayCreate}

// replayNewPage shows what a bulk replay would do, and asks.
type replayNewPage struct {
	Notice  string
	Named   bool // letters by their IDs, else a filter
	Form    filterForm
	Plan    *replays.Plan // nil: what was asked for does not work
	Skipped []skipped
	Lasts   time.Duration // about, at the rate
	Typed   bool          // the number has to be typed
	Sample  []schemas.Letter
	Tools   []string
	Paused  []string // of the tools
	Scope   []hidden // what is replayed: the same for a look and for the decision
	Set     string   // names the set that is shown
	Name    string
	Shown   time.Time
	values  url.Values
}

// skipped is how many letters are left out for one reason.
type skipped struct {
	Why string
	N   int
}

// Value is what was typed into a field.
func (p *replayNewPage) Value(name string) string { return p.values.Get(name) }

// replayNew shows what a replay of a scope would do, and does nothing.
func replayNew(v *visit) error {
	return v.showPlan(v.r.URL.Query(), "")
}

// showPlan makes the plan of what was asked for and shows it.
func (v *visit) showPlan(q url.Values, notice string) error {
	p := &replayNewPage{Notice: notice, values: q, Shown: v.cfg.Now(), Name: suggested(v.cfg.Now())}
	query, err := readReplay(q, v.cfg.Now())
	var plan replays.Plan
	if err == nil {
		err = v.ask(control.VerbReplaysPlan, query, &plan)
	}
	var wrong *control.Failure
	switch {
	case errors.As(err, &wrong) && wrong.Code < http.StatusInternalServerError:
		p.Notice, p.Scope = wrong.What, scopeFields(q, q)
		return v.showStatus(wrong.Code, "replaynew", "Replay dead letters", p)
	case err != nil:
		return err
	}
	p.Plan, p.Skipped, p.Set, p.Named = &plan, skips(plan.Skipped), setOf(&plan), len(query.IDs) > 0
	p.Typed = plan.Would >= typedFrom || plan.Uncertain > 0
	p.Lasts = time.Duration(float64(plan.Would) / plan.Rate * float64(time.Second))
	fixed := filterQuery(query.Filter)
	fixed.Set("before", strconv.FormatUint(plan.Before, 10))
	p.Form = newFilterForm(fixed, nil)
	p.Scope = scopeFields(fixed, q)
	if err := v.target(p, query); err != nil {
		return err
	}
	return v.show("replaynew", "Replay dead letters", p)
}

// target finds where the letters go, and shows some of them.
func (v *visit) target(p *replayNewPage, query replays.Query) error {
	for _, id := range p.Plan.IDs[:min(5, len(p.Plan.IDs))] {
		var l schemas.Letter
		err := v.ask(control.VerbLetterShow, control.IDQuery{ID: id}, &l)
		var gone *control.Failure
		if err != nil && !errors.As(err, &gone) { // purged since
			return err
		}
		if err == nil {
			p.Sample, p.Tools = append(p.Sample, l), append(p.Tools, l.Tool)
		}
	}
	if !p.Named {
		var groups control.GroupsPage
		f := query.Filter
		f.Limit = 0
		if err := v.ask(control.VerbGroups, control.GroupsQuery{Filter: f, By: "tool"}, &groups); err != nil {
			return err
		}
		for _, g := range groups.Groups {
			p.Tools = append(p.Tools, g.ID)
		}
	}
	slices.Sort(p.Tools)
	p.Tools = slices.Compact(p.Tools)
	var st control.Status
	if err := v.ask(control.VerbStatus, control.Empty{}, &st); err != nil {
		return err
	}
	for _, tool := range p.Tools {
		if slices.Contains(st.Paused, tool) {
			p.Paused = append(p.Paused, tool)
		}
	}
	return nil
}

// scopeFields are the fields that say which letters: a filter, and letters by their IDs.
func scopeFields(filter, q url.Values) []hidden {
	scope := url.Values{"id": q["id"]}
	for _, c := range conditions {
		if value := filter.Get(c.name); value != "" {
			scope.Set(c.name, value)
		}
	}
	if before := filter.Get("before"); before != "" {
		scope.Set("before", before)
	}
	return hiddenFields(scope)
}

// readReplay reads what is to be replayed, and how.
func readReplay(q url.Values, now time.Time) (replays.Query, error) {
	var query replays.Query
	f, err := readFilter(q, now)
	if err != nil {
		return query, err
	}
	opt, err := readReplayOptions(q)
	if err != nil {
		return query, err
	}
	f.Sort = ""
	f.Before, _ = strconv.ParseUint(q.Get("before"), 10, 64)
	query = replays.Query{Filter: f, IDs: q["id"], Name: strings.TrimSpace(q.Get("name")), ReplayOptions: opt}
	if len(query.IDs) > 0 {
		query.Filter = deadletter.Filter{}
	}
	for name, at := range map[string]*int{"in_flight": &query.InFlight, "canary": &query.Canary, "limit": &query.Filter.Limit} {
		text := strings.TrimSpace(q.Get(name))
		if *at, err = strconv.Atoi(cmp.Or(text, "0")); err != nil || *at < 0 {
			return query, badRequest("%s %q is not a number", strings.ReplaceAll(name, "_", " "), text)
		}
	}
	if text := strings.TrimSuffix(strings.TrimSpace(q.Get("rate")), "/s"); text != "" {
		if query.Rate, err = strconv.ParseFloat(text, 64); err != nil || query.Rate <= 0 {
			return query, badRequest("rate %q is not a number of letters a second", text)
		}
	}
	if text := strings.TrimSuffix(strings.TrimSpace(q.Get("stop_above")), "%"); text != "" {
		percent, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return query, badRequest("stop above %q is not a percentage", text)
		}
		percent /= 100
		query.StopAbove = &percent
	}
	return query, nil
}

// suggested is a name that no other page suggests: a form that is sent twice makes one
// replay, since the second finds the name taken.
func suggested(now time.Time) string {
	return "r-" + now.UTC().Format("0102-1504") + "-" + strings.ToLower(rand.Text()[:6])
}

// setOf names the letters of a plan, so that another set can be told from the one shown.
func setOf(p *replays.Plan) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %d %s", p.Matched, p.Would, p.Uncertain, p.Before, strings.Join(p.IDs, " ")))
	return hex.EncodeToString(sum[:12])
}

func skips(by map[string]int) []skipped {
	var all []skipped
	for why, n := range by {
		all = append(all, skipped{why, n})
	}
	slices.SortFunc(all, func(a, b skipped) int { return cmp.Or(b.N-a.N, cmp.Compare(a.Why, b.Why)) })
	return all
}

// replayCreate makes the replay that was shown. One that the same form has made already
// is gone to; anything else that has changed is shown again.
func replayCreate(v *visit) error {
	q := v.r.PostForm
	if !v.user.Role.May(control.VerbReplaysCreate) {
		return v.ask(control.VerbReplaysCreate, control.ReplayName{Name: q.Get("name")}, &struct{}{}) // refused there, and written down
	}
	if strings.TrimSpace(q.Get("name")) == "" {
		q.Set("name", q.Get("suggested"))
	}
	query, err := readReplay(q, v.cfg.Now())
	if err != nil {
		return v.showPlan(q, "")
	}
	var plan replays.Plan
	if err := v.ask(control.VerbReplaysPlan, query, &plan); err != nil {
		return v.showPlan(q, "")
	}
	notice, looks := "", 1
	switch typed := strings.TrimSpace(q.Get("count")); {
	case setOf(&plan) != q.Get("set"):
		notice = fmt.Sprintf("Nothing was replayed: the letters or who pays for them have changed since they were shown; %d would be replayed now. Look again, and decide again.", plan.Would)
	case (plan.Would >= typedFrom || plan.Uncertain > 0) && typed != strconv.Itoa(plan.Would):
		notice = fmt.Sprintf("Nothing was replayed: the number to type is %d.", plan.Would)
	}
	var made dedupe.Replay
	if notice == "" {
		query.Filter.Before, query.AtMost = plan.Before, plan.Would
		if err = v.ask(control.VerbReplaysCreate, query, &made); err == nil {
			return v.done("/replays/"+made.Name, fmt.Sprintf("Replay %s is made: %d letters at %g a second.", made.Name, made.Left, made.Rate))
		}
		var refused *control.Failure
		if !errors.As(err, &refused) {
			return err
		}
		notice, looks = "Nothing was replayed: "+refused.What+".", 20 // the name may be just being taken
	}
	if v.madeBefore(query.Name, q.Get("at"), looks) {
		return v.done("/replays/"+query.Name, "Replay "+query.Name+" was made already; it was not made twice.")
	}
	return v.showPlan(q, notice)
}

// madeBefore reports whether a replay of this name was made by the user since a page was
// shown: by the same form, since the name on it is its own. It looks so many
// times: what is just being made is not there yet.
func (v *visit) madeBefore(name, shown string, looks int) bool {
	since, err := time.Parse(time.RFC3339Nano, shown)
	for look := 0; err == nil && look < looks; look++ {
		var r dedupe.Replay
		if v.ask(control.VerbReplayShow, control.ReplayName{Name: name}, &r) == nil {
			return r.By == v.user.Name && !r.Created.Before(since)
		}
		if look+1 < looks {
			time.Sleep(50 * time.Millisecond)
		}
	}
	return false
}
