package console

import (
	"time"

	"tollgate/control"
	"tollgate/schemas"
)

var callsRoutes = map[string]handler{"GET /calls": calls, "GET /calls/{id}": callPage, "POST /calls/{id}/cancel": cancelCall}

// callsScan bounds how many calls one page looks at: a rare filter goes through them
// in parts, and somebody who waits is told so.
const callsScan = 20_000

// callsData is a page of the list of calls.
type callsData struct {
	control.CallsPage
	States   []string
	Statuses []schemas.Status
	Filtered bool
	now      time.Time
}

// calls is the list of calls, the newest first.
func calls(v *visit) error {
	q := control.CallsQuery{Tenant: v.param("tenant"), Tool: v.param("tool"), Run: v.param("run"), Key: v.param("key"), State: v.param("state"), Status: v.param("status"),
		After: v.cursor(), Scan: callsScan}
	d := callsData{States: control.CallStates, Statuses: overviewData{}.Statuses(), now: v.cfg.Now(),
		Filtered: q.Tenant != "" || q.Tool != "" || q.Run != "" || q.Key != "" || q.State != "" || q.Status != ""}
	if err := v.ask(control.VerbCallsList, q, &d.CallsPage); err != nil {
		return err
	}
	return v.show("calls", "Calls", d)
}

// Took is how long a call took from publish to outcome, or has taken so far.
func (d callsData) Took(c control.CallSummary) string {
	switch {
	case c.Published.IsZero():
		return "–"
	case c.Settled.IsZero() || c.State == "waiting" || c.State == "in_flight" || c.State == "reconciling":
		return latency(float64(d.now.Sub(c.Published).Milliseconds())) + " so far"
	}
	return latency(float64(c.Settled.Sub(c.Published).Microseconds()) / 1000)
}
