package console

import "tollgate/control"

var auditRoutes = map[string]handler{"GET /audit": audit}

// audit is the list of operators' decisions.
func audit(v *visit) error {
	var p control.AuditPage
	q := control.AuditQuery{By: v.param("by"), Target: v.param("target"), Action: v.param("action"), Refused: v.param("refused") != "", Before: v.cursor()}
	if err := v.ask(control.VerbAuditList, q, &p); err != nil {
		return err
	}
	return v.show("audit", "Audit", p)
}
