package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

var runsRoutes = map[string]handler{
	"GET /runs": runs, "GET /runs/{id}": run,
	"POST /runs/{id}/grant": grantRun, "POST /runs/{id}/cancel": cancelRun,
}

// runsPage is the list of runs.
type runsPage struct {
	Rows   []runRow
	Next   string
	States []string
}

type runRow struct {
	budget.Run
	Link      string
	Gauges    gauges // of its root
	State, At string // and of which account
}

func runs(v *visit) error {
	var p control.RunsPage
	q := control.RunsQuery{Tenant: v.param("tenant"), Run: v.param("run"), State: v.param("state"), Sort: v.param("sort"), After: v.param("cursor")}
	if err := v.ask(control.VerbRunsList, q, &p); err != nil {
		return err
	}
	now := v.cfg.Now()
	data := runsPage{Next: p.Next, States: control.RunStates}
	for _, r := range p.Runs {
		row := runRow{Run: r, Link: runLink(r.Tenant, r.Root), Gauges: gaugesOf(r.Accounts[r.Root], r.Started, now)}
		row.State, row.At = control.RunState(&r, now)
		data.Rows = append(data.Rows, row)
	}
	return v.show("runs", "Runs", data)
}

// runLink is a run's address: the path's root, and the tenant when it is not the default.
func runLink(tenant, path string) string {
	to := "/runs/" + url.PathEscape(schemas.Root(path))
	if tenant != "" && tenant != "default" {
		to += "?tenant=" + url.QueryEscape(tenant)
	}
	return to
}

// gauges show how much of an account is used, in each dimension.
type gauges struct{ Attempts, Effects, Elapsed gauge }

// gauge is one of them. Share is of a hundred, for a bar beside the words.
type gauge struct {
	Used, Limit string
	Share       int
	Full        bool
	None        bool // a run that was cancelled before anybody used it has no limits
}

func gaugesOf(a budget.Account, started, now time.Time) gauges {
	if a.Limits == (budget.Limits{}) {
		return gauges{gauge{None: true}, gauge{None: true}, gauge{None: true}}
	}
	most := max(0, a.Limits.Deadline.Sub(started))
	elapsed := min(max(0, now.Sub(started)), most)
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return gauges{
		Attempts: gaugeOf(int64(a.Attempts), int64(a.Limits.Attempts), number),
		Effects:  gaugeOf(int64(a.Effects), int64(a.Limits.SideEffects), number),
		Elapsed:  gaugeOf(int64(elapsed), int64(most), func(n int64) string { return brief(time.Duration(n)) }),
	}
}

func gaugeOf(used, limit int64, say func(int64) string) gauge {
	g := gauge{Used: say(used), Limit: say(limit), Full: used >= limit, Share: 100}
	if limit > 0 && used < limit {
		g.Share = int(100 * float64(used) / float64(limit))
	}
	return g
}

// runPage is one run.
type runPage struct {
	control.RunDetail
	Link     string
	Spent    gauges // of the root
	State    string // of the first account that is not open
	At       string
	Accounts []accountRow
	Grants   []grantRow
	Burn     burndown
	Calls    []control.CallSummary
	More     bool // there are more calls than these
	AllCalls string
}

type accountRow struct {
	budget.Account
	Gauges gauges
	State  string
}

type grantRow struct {
	Path string
	budget.Grant
}

// mostCallsShown is how many of a run's calls its page has; the list has all.
const mostCallsShown = 25

func run(v *visit) error {
	var d control.RunDetail
	tenant, root := cmp.Or(v.param("tenant"), "default"), v.r.PathValue("id")
	if err := v.ask(control.VerbRunShow, control.RunQuery{Tenant: tenant, Run: root, Charges: true}, &d); err != nil {
		return err
	}
	var calls control.CallsPage
	if err := v.ask(control.VerbCallsList, control.CallsQuery{Tenant: tenant, Run: root, Limit: mostCallsShown}, &calls); err != nil {
		return err
	}
	now := v.cfg.Now()
	p := runPage{RunDetail: d, Link: runLink(d.Tenant, d.Root), Spent: gaugesOf(d.Run.Accounts[d.Root], d.Started, now), Burn: burn(&d, now),
		Calls: calls.Calls, More: calls.Next != 0, AllCalls: "/calls?" + url.Values{"run": {d.Root}, "tenant": {d.Tenant}}.Encode()}
	p.State, p.At = control.RunState(&d.Run, now)
	for _, path := range slices.Sorted(maps.Keys(d.Run.Accounts)) {
		a := d.Run.Accounts[path]
		p.Accounts = append(p.Accounts, accountRow{a, gaugesOf(a, d.Started, now), control.AccountState(a, now)})
		for _, g := range a.Grants {
			p.Grants = append(p.Grants, grantRow{path, g})
		}
	}
	slices.SortFunc(p.Grants, func(a, b grantRow) int { return b.Grant.At.Compare(a.Grant.At) })
	return v.show("run", "Run "+d.Root, p)
}

// grantRun raises the limits of one account of the run.
func grantRun(v *visit) error {
	q := control.GrantQuery{Tenant: v.field("tenant"), Run: v.field("account"), Why: v.field("why")}
	if schemas.Root(q.Run) != v.r.PathValue("id") {
		return wrongField("the account", q.Run, "one of the run's own paths")
	}
	if q.Why == "" {
		return wrongField("the reason", q.Why, "a few words for the audit, such as the incident")
	}
	var err error
	for name, into := range map[string]*int{"attempts": &q.Attempts, "side_effects": &q.SideEffects} {
		if *into, err = strconv.Atoi(cmp.Or(v.field(name), "0")); err != nil {
			return wrongField(name, v.field(name), "a whole number, or nothing")
		}
	}
	if q.Elapsed, err = time.ParseDuration(cmp.Or(v.field("elapsed"), "0s")); err != nil {
		return wrongField("the elapsed time", v.field("elapsed"), "a duration such as 10m or 1h30m, or nothing")
	}
	var d control.RunDetail
	if err := v.ask(control.VerbRunGrant, q, &d); err != nil {
		return err
	}
	return v.done(runLink(q.Tenant, q.Run), fmt.Sprintf("Granted to %s: %d attempts, %d side effects, %s.", q.Run, q.Attempts, q.SideEffects, brief(q.Elapsed)))
}

// cancelRun stops a path of the run and everything below it, once it was typed again:
// a cancelled run cannot be opened again.
func cancelRun(v *visit) error {
	path := v.field("account")
	switch {
	case schemas.Root(path) != v.r.PathValue("id"):
		return wrongField("the account", path, "one of the run's own paths")
	case v.field("typed") != path:
		return wrongField("what was typed", v.field("typed"), path+", to confirm that this is what is cancelled")
	case v.field("why") == "":
		return wrongField("the reason", "", "a few words for the audit, and for whoever reads the outcomes")
	}
	rep, err := v.cancel(cmp.Or(v.field("tenant"), "default"), dispatcher.CancelRequest{Run: path, Reason: v.field("why")})
	if err != nil {
		return err
	}
	return v.done(runLink(v.field("tenant"), path), fmt.Sprintf("Cancelled %s: %d waiting calls were settled, %d running attempts were told to stop.", path, rep.Cancelled, rep.Running))
}

// wrongField refuses a form because of one of its fields. Nothing was done.
func wrongField(name, value, try string) error {
	return &control.Failure{Problem: control.Problem{Code: 400, What: fmt.Sprintf("%s cannot be %q; nothing was done", name, value), Try: try}}
}
