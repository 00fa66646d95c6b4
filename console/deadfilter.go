package console

import (
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
	"tollgate/schemas"
)

// condition is one condition on dead letters, by its name in the address.
type condition struct {
	name, label, hint string
	common            bool // else it stands behind "more"
	options           []string
	text              func(*deadletter.Filter) *string
	time              func(*deadletter.Filter) *time.Time
}

// conditions are those of deadletter.Filter, in the order of the form.
var conditions = []condition{
	{name: "tool", label: "Tool", hint: "crm.* or a,b", common: true, text: func(f *deadletter.Filter) *string { return &f.Tool }},
	{name: "reason", label: "Reason", common: true, options: schemas.Reasons, text: func(f *deadletter.Filter) *string { return &f.Reason }},
	{name: "error", label: "Error contains", common: true, text: func(f *deadletter.Filter) *string { return &f.Error }},
	{name: "run", label: "Run and below", common: true, text: func(f *deadletter.Filter) *string { return &f.Run }},
	{name: "since", label: "Died since", hint: "2h, 3d or a time", common: true, time: func(f *deadletter.Filter) *time.Time { return &f.Since }},
	{name: "until", label: "Died before", hint: "2h, 3d or a time", common: true, time: func(f *deadletter.Filter) *time.Time { return &f.Until }},
	{name: "state", label: "State", common: true, options: []string{"active", "replaying", "resolved", "discarded", "purged", "all"}, text: func(f *deadletter.Filter) *string { return &f.State }},
	{name: "tenant", label: "Tenant", text: func(f *deadletter.Filter) *string { return &f.Tenant }},
	{name: "code", label: "Error code", text: func(f *deadletter.Filter) *string { return &f.Code }},
	{name: "class", label: "Class of error", options: []string{"transient", "permanent", "unclassified"}, text: func(f *deadletter.Filter) *string { return &f.Class }},
	{name: "group", label: "Group", hint: "g-…", text: func(f *deadletter.Filter) *string { return &f.Group }},
	{name: "call", label: "Call begins with", text: func(f *deadletter.Filter) *string { return &f.Call }},
	{name: "key", label: "Idempotency key", text: func(f *deadletter.Filter) *string { return &f.Key }},
	{name: "error_re", label: "Error matches", hint: "regular expression", text: func(f *deadletter.Filter) *string { return &f.ErrorRE }},
	{name: "attempts", label: "Attempts", hint: "3 or >=3", text: func(f *deadletter.Filter) *string { return &f.Attempts }},
	{name: "replayed", label: "Replayed before", hint: "yes, no or >=2", text: func(f *deadletter.Filter) *string { return &f.Replayed }},
	{name: "replay", label: "Died again in replay", hint: "its name", text: func(f *deadletter.Filter) *string { return &f.Replay }},
}

// readFilter makes a filter of an address, fixed in time.
func readFilter(q url.Values, now time.Time) (deadletter.Filter, error) {
	f := deadletter.Filter{Sort: q.Get("sort")}
	var problems []error
	for _, c := range conditions {
		value := strings.TrimSpace(q.Get(c.name))
		if c.text != nil {
			*c.text(&f) = value
			continue
		}
		at, err := deadletter.Instant(value, now)
		if err != nil {
			err = fmt.Errorf("%s: %w", c.label, err)
		}
		*c.time(&f), problems = at, append(problems, err)
	}
	if err := errors.Join(append(problems, f.Check())...); err != nil {
		return f, badRequest("the filter does not work: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return f, nil
}

// badRequest is an error of whoever has asked.
func badRequest(format string, args ...any) error {
	return &control.Failure{Problem: control.Problem{Code: http.StatusBadRequest, What: fmt.Sprintf(format, args...)}}
}

// filterQuery is the address's part of a filter, which readFilter gives back the same.
func filterQuery(f deadletter.Filter) url.Values {
	q := url.Values{}
	for _, c := range conditions {
		switch {
		case c.text != nil && *c.text(&f) != "":
			q.Set(c.name, *c.text(&f))
		case c.time != nil && !c.time(&f).IsZero():
			q.Set(c.name, c.time(&f).Format(time.RFC3339Nano))
		}
	}
	if f.Sort != "" {
		q.Set("sort", f.Sort)
	}
	return q
}

// at is an address with a query.
func at(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// filterForm is the form that narrows letters, filled with what the address says.
type filterForm struct {
	Common, More []filterField
	Open         bool // something behind "more" is filled in
	Problem      string
}

type filterField struct {
	Name, Label, Value, Hint string
	Options                  []string // none: any text
}

func newFilterForm(q url.Values, problem error) filterForm {
	var form filterForm
	for _, c := range conditions {
		field := filterField{Name: c.name, Label: c.label, Value: q.Get(c.name), Hint: c.hint, Options: c.options}
		if field.Options != nil && field.Value != "" && !slices.Contains(field.Options, field.Value) {
			field.Options = append(slices.Clone(field.Options), field.Value) // several, joined by commas
		}
		if c.common {
			form.Common = append(form.Common, field)
			continue
		}
		form.More = append(form.More, field)
		form.Open = form.Open || field.Value != ""
	}
	if problem != nil {
		form.Problem = problem.Error()
	}
	return form
}

// Set are the fields that narrow anything.
func (f filterForm) Set() []filterField {
	var set []filterField
	for _, field := range slices.Concat(f.Common, f.More) {
		if field.Value != "" {
			set = append(set, field)
		}
	}
	return set
}

// hidden is a field of a form that carries on what the page was made for.
type hidden struct{ Name, Value string }

func hiddenFields(q url.Values) []hidden {
	var fields []hidden
	for name, values := range q {
		for _, value := range values {
			fields = append(fields, hidden{name, value})
		}
	}
	slices.SortStableFunc(fields, func(a, b hidden) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// wholeNumber reads a whole number of a query; 0 for none, and for what is none.
func wholeNumber(q url.Values, name string) int {
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// splitList splits what is joined by commas.
func splitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
