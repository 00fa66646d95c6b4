package console

import (
	"cmp"
	"fmt"
	"net/url"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// callData is one call as its page shows it.
type callData struct {
	control.CallDetail
	Picture timeline
	Open    bool // it may still be cancelled
	Before  bool // the outcome is of an earlier generation: a replay is under way
	RunLink string
	Took    string
}

// callPage is everything known of one call.
func callPage(v *visit) error {
	var d callData
	if err := v.ask(control.VerbCallShow, control.IDQuery{ID: v.r.PathValue("id")}, &d.CallDetail); err != nil {
		return err
	}
	now := v.cfg.Now()
	d.Open = d.State == "in_flight" || d.State == "reconciling" || d.State == "waiting"
	d.Before = d.Outcome != nil && d.Outcome.Generation < d.Generation
	d.RunLink = runLink(d.Tenant, d.Run)
	d.Took = callsData{now: now}.Took(d.CallSummary)
	d.Picture = draw(&d.CallDetail, d.Open, now)
	return v.show("call", "Call "+short(d.Call)+" of "+d.Tool, d)
}

// cancelCall stops a call that has not ended. The audit says why.
func cancelCall(v *visit) error {
	id := v.r.PathValue("id")
	if v.field("why") == "" {
		return wrongField("the reason", "", "a few words for the audit")
	}
	rep, err := v.cancel(cmp.Or(v.field("tenant"), "default"), dispatcher.CancelRequest{Call: id, Reason: v.field("why")})
	if err != nil {
		return err
	}
	said := "It had ended already; nothing was done."
	switch {
	case rep.Cancelled > 0:
		said = "Cancelled: nothing of it starts any more."
	case rep.Running > 0:
		said = "The running attempt was told to stop; the call is cancelled when it has."
	}
	return v.done("/calls/"+url.PathEscape(id), said)
}

// Charged is how many attempts were charged for this call, replays included.
func (d callData) Charged() (n int) {
	for _, a := range d.Timeline {
		if !a.Reconcile {
			n++
		}
	}
	return n
}

// Limit says what an account's limit is, and that a message has lowered it.
func (callData) Limit(spent, limit int, named bool) string {
	text := fmt.Sprintf("%d of %d", spent, limit)
	if named {
		text += ", named by a message"
	}
	return text
}

// Spent is how long an attempt took.
func (callData) Spent(a schemas.Attempt) string {
	if a.Ended.IsZero() {
		return "running"
	}
	return latency(float64(a.Ended.Sub(a.Started).Microseconds()) / 1000)
}

// Ms is a wait, or nothing.
func (callData) Ms(n int64) string {
	if n == 0 {
		return ""
	}
	return brief(time.Duration(n) * time.Millisecond)
}
