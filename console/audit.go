package console

import (
	"net/http"
	"net/url"
	"strings"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
)

var auditRoutes = map[string]handler{"GET /audit": audit}

// decision is one line of the audit and the page of what it was about.
type decision struct {
	control.AuditEntry
	About string // "": there is none
}

// auditData is what the page of the audit shows.
type auditData struct {
	Decisions []decision
	Next      uint64
	Filtered  bool
}

// audit is the list of operators' decisions.
func audit(v *visit) error {
	q := control.AuditQuery{Tenant: v.param("tenant"), By: v.param("by"), Target: v.param("target"), Action: v.param("action"), Refused: v.param("refused") != "", Before: v.cursor()}
	var err error
	if q.Since, err = deadletter.Instant(v.param("since"), v.cfg.Now()); err == nil {
		q.Until, err = deadletter.Instant(v.param("until"), v.cfg.Now())
	}
	if err != nil {
		return &control.Failure{Problem: control.Problem{Code: http.StatusBadRequest, What: err.Error(), Try: "a time or an age in the fields since and until"}}
	}
	var p control.AuditPage
	if err := v.ask(control.VerbAuditList, q, &p); err != nil {
		return err
	}
	d := auditData{Next: p.Next, Filtered: v.r.URL.RawQuery != ""}
	for _, e := range p.Entries {
		d.Decisions = append(d.Decisions, decision{e, v.served(about(&e.Audit))})
	}
	return v.show("audit", "Audit", d)
}

// served is an address that this console has a page at, or "".
func (v *visit) served(to string) string {
	u, err := url.Parse(to)
	if err != nil || to == "" {
		return ""
	}
	if _, pattern := v.mux.Handler(&http.Request{Method: http.MethodGet, URL: u}); pattern == "GET /" {
		return ""
	}
	return to
}

// about is the address of what a decision was about.
func about(a *dedupe.Audit) string {
	kind, name, named := strings.Cut(a.Target, " ")
	name = url.PathEscape(name)
	if !named {
		if call, _, err := dedupe.ParseLetterID(kind); err == nil && call != "" {
			return "/dead/" + url.PathEscape(kind)
		}
		return ""
	}
	switch kind {
	case "call":
		return "/calls/" + name
	case "run":
		return runLink(a.Tenant, a.Target[len("run "):])
	case "tool":
		return "/tools/" + name
	case "replay":
		return "/replays/" + name
	case "group":
		return "/dead/list?group=" + url.QueryEscape(a.Target[len("group "):])
	}
	return ""
}
