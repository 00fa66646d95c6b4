package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// permitted lets a request through whose role may ask the verb. One that states no role
// is let through: the server's permissions have decided about it. What a role may not
// decide is recorded like any other decision.
func (s *Server) permitted(verb string, h func(micro.Request)) func(micro.Request) {
	return func(r micro.Request) {
		if role, stated := refusing(r.Headers(), verb); stated {
			s.deny(r, verb, role)
			return
		}
		if tooLong(r) {
			s.fail(r, Problem{Code: 413, What: fmt.Sprintf("the reason, note or name is longer than %d bytes, and has to fit the audit; nothing was done", mostWords), Try: "say it shorter, with a link to the rest"})
			return
		}
		h(r)
	}
}

// refusing is a role that a request states, in whatever case its header is written, and
// that may not ask the verb.
func refusing(h micro.Headers, verb string) (Role, bool) {
	for header, names := range h {
		if !strings.EqualFold(header, HeaderRole) {
			continue
		}
		for _, name := range names {
			if role := Role(name); !role.May(verb) {
				return role, true
			}
		}
	}
	return "", false
}

// mostWords bounds what somebody writes about a decision: the audit has it as one message.
const mostWords = 4 << 10

// tooLong reports whether a request says more than the audit can hold.
func tooLong(r micro.Request) bool {
	if len(r.Headers().Get(HeaderBy)) > mostWords || len(r.Headers().Get(HeaderWhy)) > mostWords {
		return true
	}
	if len(r.Data()) <= mostWords {
		return false
	}
	var q struct{ Why, Reason, Text string }
	_ = json.Unmarshal(r.Data(), &q) // of a query that is wrong its own handler tells
	return max(len(q.Why), len(q.Reason), len(q.Text)) > mostWords
}

// deny answers that a role may not ask a verb.
func (s *Server) deny(r micro.Request, verb string, role Role) {
	if Needs(verb) != Viewer {
		s.recordDenial(r, verb, role)
	}
	p := Problem{Code: 403, What: fmt.Sprintf("%s needs the role %s; this user is %s", verb, Needs(verb), role), Try: fmt.Sprintf("ask somebody with the role %s", Needs(verb))}
	if role.rank() < 0 {
		p.What = fmt.Sprintf("%q is not a role", clip(string(role)))
		p.Try = fmt.Sprintf("one of %v", Roles)
	}
	s.fail(r, p)
}

// recordDenial puts the refusal into the audit. The refusal stands without it, so a
// ledger that cannot commit is only logged.
func (s *Server) recordDenial(r micro.Request, verb string, role Role) {
	a := dedupe.Audit{At: time.Now(), Action: actionOf(verb), By: cmp.Or(clip(r.Headers().Get(HeaderBy)), "unknown"), Detail: fmt.Sprintf("needs the role %s, asked as %s", Needs(verb), clip(string(role)))}
	s.describe(&a, r, verb)
	ctx, cancel := context.WithTimeout(s.base, 10*time.Second)
	defer cancel()
	receipt, err := s.cfg.Ledger.Update(ctx, dedupe.Ref{Tenant: a.Tenant}, func(dedupe.View) dedupe.Change { return dedupe.Change{Audit: []dedupe.Audit{a}} })
	if err != nil {
		s.cfg.Log.Error().Err(err).Str("verb", verb).Str("by", a.By).Msg("refused by role, and the refusal is not in the audit")
		return
	}
	s.cfg.Publish(receipt.Audit)
}

// describe says what a refused request was about, as far as it can be told without
// doing what was asked.
func (s *Server) describe(a *dedupe.Audit, r micro.Request, verb string) {
	var q struct{ ID, Run, Call, Tool, Name, Path, Tenant, Why, Reason string }
	_ = json.Unmarshal(r.Data(), &q) // of a query that is wrong too, whatever can be read
	if verb == VerbCancel {
		q.Tenant = r.Subject()[strings.LastIndexByte(r.Subject(), '.')+1:]
	}
	if schemas.ValidTenant(q.Tenant) {
		a.Tenant = q.Tenant
	}
	a.Why = clip(cmp.Or(q.Why, q.Reason, r.Headers().Get(HeaderWhy)))
	switch {
	case strings.HasPrefix(q.ID, "g-"):
		a.Target = "group " + q.ID
	case q.ID != "":
		a.Target = q.ID
		if id, err := s.letter(q.ID); err == nil {
			a.Target = id
		}
	case q.Call != "":
		a.Target = "call " + q.Call
	case q.Run != "":
		a.Target = "run " + q.Run
	case q.Tool != "":
		a.Target = "tool " + q.Tool
	case q.Name != "":
		a.Target = "replay " + q.Name
	case verb == VerbConsoleLink:
		a.Target = "console"
	default:
		a.Target = cmp.Or(q.Path, r.Headers().Get(HeaderSubject))
	}
	a.Target = clip(a.Target)
}

// actionOf is what the audit calls a verb.
func actionOf(verb string) string {
	section, name, nested := strings.Cut(verb, ".")
	switch {
	case !nested:
		return verb
	case section == "replays":
		return "replays_" + name
	}
	return name
}

// clip bounds what somebody who may not ask puts into the audit.
func clip(text string) string {
	const most = 300
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
