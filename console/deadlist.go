package console

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

var deadListRoutes = map[string]handler{"GET /dead/list": deadList, "GET /dead/export": deadExport}

// pageSizes are how many letters a page may show.
var pageSizes = []string{"25", "50", "100", "200"}

// letterColumn is a column of the list; one with a key can be sorted by.
type letterColumn struct{ Name, Key, Class string }

var letterColumns = []letterColumn{{"Letter", "seq", ""}, {"Died", "died", ""}, {"State", "", ""}, {"Tool", "tool", ""}, {"Error", "", ""}, {"Reason", "reason", ""}, {"Run", "run", ""},
	{"Attempts", "attempts", "num"}, {"Replayed", "replayed", "num"}, {"Code", "code", ""}, {"Key", "", ""}, {"Note", "", ""}}

// lettersPage is what the list shows.
type lettersPage struct {
	Form    filterForm
	Limit   string
	Sizes   []string
	Columns []letterColumn
	Letters []schemas.Letter
	Total   int
	Next    uint64
	Query   string   // of the filter, for the links to letters: "" or ?…
	Hidden  []hidden // the filter, fixed in time
	Hours   bars
	States  []string // that the filter lets through
	Sort    string
	Export  string
}

// deadList shows letters one by one.
func deadList(v *visit) error {
	q := v.r.URL.Query()
	p := lettersPage{Limit: cmp.Or(q.Get("limit"), "50"), Sizes: pageSizes, Columns: letterColumns, Sort: cmp.Or(q.Get("sort"), "-seq")}
	f, err := readFilter(q, v.cfg.Now())
	p.Form = newFilterForm(q, err)
	if err != nil {
		return v.showStatus(http.StatusBadRequest, "deadlist", "Dead letters, one by one", p)
	}
	if !slices.Contains(pageSizes, p.Limit) {
		p.Limit = "50"
	}
	asked := f
	asked.Limit, _ = strconv.Atoi(p.Limit)
	asked.Before = v.cursor()
	var page deadletter.Page
	if err := v.ask(control.VerbLetterList, asked, &page); err != nil {
		return err
	}
	p.Letters, p.Total, p.Next = page.Letters, page.Total, page.Next
	fixed := filterQuery(f)
	p.Query, p.Hidden, p.Export = at("", fixed), hiddenFields(fixed), at("/dead/export", fixed)
	p.States = statesOf(f)
	if p.Hours, err = v.hours(f, q); err != nil {
		return err
	}
	return v.show("deadlist", "Dead letters, one by one", p)
}

// hours is the histogram of a filter.
func (v *visit) hours(f deadletter.Filter, q url.Values) (bars, error) {
	f.Sort, f.Limit = "", mostHours+1
	var groups control.GroupsPage
	err := v.ask(control.VerbGroups, control.GroupsQuery{Filter: f, By: "hour"}, &groups)
	return histogram(groups.Groups, groups.Total, func(since, until time.Time) string {
		q.Del("cursor")
		q.Set("since", since.Format(time.RFC3339))
		q.Set("until", until.Format(time.RFC3339))
		return at("/dead/list", q)
	}), err
}

// statesOf are the states that a filter lets through.
func statesOf(f deadletter.Filter) []string {
	if f.State == "all" {
		return []string{"active", "replaying", "resolved", "discarded", "purged"}
	}
	var states []string
	for _, s := range splitList(cmp.Or(f.State, "active")) {
		if s == "all" {
			return statesOf(deadletter.Filter{State: "all"})
		}
		states = append(states, s)
	}
	return states
}

// Lets reports whether the filter lets letters of a state through.
func (p lettersPage) Lets(state string) bool { return slices.Contains(p.States, state) }

// Sorted is what a column's header says about the order of the list.
func (p lettersPage) Sorted(key string) string {
	switch p.Sort {
	case key:
		return "ascending"
	case "-" + key:
		return "descending"
	}
	return "none"
}

// Other is the order that a click on a column's header asks for.
func (p lettersPage) Other(key string) string {
	if p.Sort == "-"+key {
		return key
	}
	return "-" + key
}

// exportWithin bounds a whole export.
const exportWithin = 10 * time.Minute

// deadExport gives every letter of a filter as the command line does, a line each. What
// has begun as a file cannot say that it is not whole, so a failure cuts the connection,
// which a browser tells from an end.
func deadExport(v *visit) error {
	f, err := readFilter(v.r.URL.Query(), v.cfg.Now())
	if err != nil {
		return err
	}
	if !v.user.Role.May(control.VerbExport) {
		return v.forbidden(control.VerbExport)
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), exportWithin)
	defer cancel()
	ids, err := v.frozen(f)
	if err != nil {
		return err
	}
	head := v.w.Header()
	head.Set("Content-Type", "application/jsonl; charset=utf-8")
	head.Set("Content-Disposition", `attachment; filename="dead-letters-`+v.cfg.Now().UTC().Format("20060102-150405")+`.jsonl"`)
	out := bufio.NewWriterSize(v.w, 64<<10)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	client := v.client()
	for _, id := range ids {
		line, err := client.Fetch(ctx, id)
		var gone *control.Failure
		if errors.As(err, &gone) && gone.Code == http.StatusNotFound {
			continue // it was purged while the export was under way
		}
		if err == nil {
			err = lines.Encode(line)
		}
		if err != nil {
			v.cfg.Log.Warn().Err(err).Msg("console: an export was cut off")
			panic(http.ErrAbortHandler)
		}
	}
	return out.Flush()
}
