package classify

import (
	"fmt"
	"strconv"
	"time"

	"tollgate/schemas"
)

// HTTP judges a complete HTTP answer. retryAfter is the Retry-After header as it
// came. A tool error in the body outranks the status, even a 2xx.
func HTTP(status int, retryAfter string, body []byte, rules Rules, now time.Time) Verdict {
	if status >= 300 && status < 400 {
		return Refused(Answered, CodeRedirect, fmt.Sprintf("the tool answered with a redirect (HTTP %d), which is not followed", status))
	}
	a := answer{
		status: status, ok: status >= 200 && status < 300,
		code: "HTTP_" + strconv.Itoa(status), name: fmt.Sprintf("HTTP status %d", status),
		row: httpRow(status), wait: RetryAfter(retryAfter, now), body: body,
	}
	return a.verdict(rules)
}

// Exec judges a command that ended by itself, by its exit code and standard output.
func Exec(exit int, stdout []byte, rules Rules) Verdict {
	a := answer{
		status: exit, ok: exit == 0,
		code: "EXIT_" + strconv.Itoa(exit), name: fmt.Sprintf("exit code %d", exit),
		row: exitRow(exit), body: stdout,
	}
	return a.verdict(rules)
}

// NATS judges a reply. code is its Nats-Service-Error-Code header, "" on success;
// a code that is no number is on no list.
func NATS(code, retryAfter string, body []byte, rules Rules, now time.Time) Verdict {
	if code == "" {
		return answer{ok: true, name: "reply", body: body}.verdict(rules)
	}
	n, err := strconv.Atoi(code)
	if err != nil {
		return Unknown(Answered, schemas.CodeUnclassified, "the service answered with an error code that is not a number")
	}
	a := answer{
		status: n, code: "NATS_" + strconv.Itoa(n), name: fmt.Sprintf("service error %d", n),
		row: httpRow(n), wait: RetryAfter(retryAfter, now), body: body,
	}
	return a.verdict(rules)
}

// answer is what every kind of tool gives: a status, what the table says of it,
// and a body that may say better.
type answer struct {
	status int
	ok     bool
	code   string
	name   string
	row    row
	wait   time.Duration
	body   []byte
}

func (a answer) verdict(rules Rules) Verdict {
	r := a.row
	if !a.ok {
		r = rules.apply(a.status, r)
	}
	if t, kind := schemas.ParseToolError(a.body, rules.Codes); kind != schemas.NotToolError {
		return a.toolError(t, kind, r)
	}
	if !a.ok {
		return a.byTable(r)
	}
	if at, set := lookup(a.body, rules.ErrorAt); set {
		return a.errorInside(at, rules)
	}
	return Result(a.body)
}

func (a answer) byTable(r row) Verdict {
	v := Verdict{
		Class: r.class, Phase: r.phase, For: r.who, StopReason: r.stop, Throttled: r.throttled,
		Code: a.code, Message: "the tool answered with " + a.name,
	}
	switch {
	case r.class == Transient:
		v.RetryAfter = a.wait
	case r.class == Unclassified:
		v.Message += ", which is on no list; declare it under classify if it is known"
	case r.who == ForModel:
		v.Content = explain(a.body)
	}
	return v
}

// toolError takes the body's word over the status. Its phase is answered, unless
// the tool declared that the status proves nothing was done.
func (a answer) toolError(t schemas.ToolErrorBody, kind schemas.ToolErrorKind, r row) Verdict {
	if kind == schemas.BrokenToolError {
		phase := r.phase
		if phase == 0 {
			phase = Answered
		}
		return Unknown(phase, schemas.CodeUnclassified, "the tool's error body breaks the tool error contract: "+
			"code (from the declared set), retryable, retry_after_ms and stop_reason must all be there")
	}
	v := Verdict{Phase: Answered, Class: Permanent, Code: t.Code, Message: "the tool answered with its error " + clip(t.Code, 200), StopReason: t.StopReason}
	if !a.ok && r.phase == NotSent {
		v.Phase = NotSent
	}
	switch {
	case t.StopReason != "":
	case t.Retryable:
		v.Class, v.RetryAfter, v.Throttled = Transient, t.RetryAfter, r.throttled
		if v.RetryAfter == 0 {
			v.RetryAfter = a.wait
		}
	default:
		v.For, v.Content = ForModel, explain(a.body)
	}
	return v
}

// errorInside judges the value that error_at points to in a success.
func (a answer) errorInside(value []byte, rules Rules) Verdict {
	if t, kind := schemas.ParseToolError(value, rules.Codes); kind != schemas.NotToolError {
		a.body = value
		return a.toolError(t, kind, a.row)
	}
	v := Refused(Answered, CodeToolSaid, "the tool's result says that it failed")
	v.For, v.Content = ForModel, explain(value)
	return v
}
