package badinput

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// forgeries are messages that pretend to be somebody else's, or go where they must not.
func forgeries(t *testing.T, b *table) {
	p := newPlace(t, "", nil)
	wrongNames(p, b)
	forgedHeaders(p, b)
	forgedSubjects(p, b)
	badRequests(p, b)
	p.sound()
}

func wrongNames(p *place, b *table) {
	for _, c := range []struct{ name, subject, want string }{
		{"a tool nobody serves", "tollgate.calls.default.no.such", "UNKNOWN_TOOL"},
		{"a tool's name that is illegal", "tollgate.calls.default.a$b", malformed + "tool"},
		{"a tool of nine segments", "tollgate.calls.default.a.b.c.d.e.f.g.h.i", malformed + "tool"},
		{"a tool's name of 300 bytes", "tollgate.calls.default." + strings.Repeat("x", 300), malformed + "tool"},
		{"a tenant in capitals", "tollgate.calls.DEFAULT.good", malformed + "tenant"},
		{"a tenant and no tool", "tollgate.calls.default", malformed + "subject"},
	} {
		tool := strings.TrimPrefix(c.subject, "tollgate.calls.default.")
		m := worldtest.Msg{Tool: tool, Run: "names", Key: dashed(c.name)}
		n := m.Build()
		n.Subject = c.subject
		letters, ran := p.Letters(deadletter.Filter{}).Total, p.good.N()
		if err := p.publish(n); err != nil {
			p.T.Fatalf("%s: %v", c.name, err)
		}
		where := p.ending(m, letters)
		if p.good.N() != ran {
			p.T.Errorf("%s: the tool ran", c.name)
		}
		b.expect(p.T, "name", c.name, where, c.want)
		p.serves(c.name)
	}
}

func forgedHeaders(p *place, b *table) {
	for _, c := range []struct {
		name string
		h    map[string]string
		want string
	}{
		{"Nats-Rollup: all", map[string]string{"Nats-Rollup": "all"}, "refused by the server"},
		{"Nats-Schedule", map[string]string{"Nats-Schedule": "@at 2031-01-01T00:00:00Z", "Nats-Schedule-Target": "tollgate.retry.calls.default.x.good"}, "refused by the server"},
		{"another Nats-Expected-Stream", map[string]string{"Nats-Expected-Stream": "TOLLGATE_DLQ"}, "refused by the server"},
		{"Nats-TTL", map[string]string{"Nats-TTL": "1s"}, "refused by the server"},
		{"a Status header", map[string]string{"Status": "404", "Description": "No Messages"}, "outcome succeeded"},
		{"the dispatcher's own headers", map[string]string{schemas.HeaderAttempt: "99", schemas.HeaderGeneration: "7", schemas.HeaderToken: "1", schemas.HeaderSpentAttempts: "-5",
			schemas.HeaderOutcome: `{"v":1,"status":"succeeded"}`, schemas.HeaderLetter: "x.0", schemas.HeaderCall: "someone-elses"}, "outcome succeeded"},
	} {
		m := worldtest.Msg{Tool: "good", Run: "forged", Key: dashed(c.name), Header: c.h}
		ran, where := p.good.N(), ""
		if err := p.publish(m.Build()); err != nil {
			where = "refused by the server: " + err.Error()
		} else {
			where = p.ending(m, p.Letters(deadletter.Filter{}).Total)
		}
		if n := p.good.N() - ran; n > 1 || n == 1 != strings.HasPrefix(where, "outcome succeeded") {
			p.T.Errorf("%s: the tool ran %d times, and it ended in %s", c.name, n, where)
		}
		b.expect(p.T, "forged header", c.name, where, c.want)
		p.serves(c.name)
	}
}

// forgedSubjects are publications that only the dispatcher should make. What keeps an
// agent from them is its permissions; here it has none to stop it.
func forgedSubjects(p *place, b *table) {
	known := worldtest.Msg{Tool: "good", Run: "known", Key: "k"}
	p.Do(known)
	call, ran := worldtest.CallID(known), p.good.N()
	for _, c := range []struct{ name, subject, token string }{
		{"a fired retry of a call that has ended", "tollgate.retry.calls.default." + call + ".good", "1"},
		{"a fired retry with a token from the future", "tollgate.retry.calls.default." + call + ".good", "18446744073709551615"},
		{"a fired retry of a call nobody made", "tollgate.retry.calls.default.nobodyscall.good", "1"},
	} {
		n := known.Build()
		n.Subject = c.subject
		n.Header.Set(schemas.HeaderToken, c.token)
		if err := p.publish(n); err != nil {
			p.T.Fatalf("%s: %v", c.name, err)
		}
		p.Until(patience, c.name+" is settled", func() bool { return p.Messages("TOLLGATE_RETRY") == 0 })
		if p.good.N() != ran {
			p.T.Errorf("%s: the tool ran", c.name)
		}
		b.add(p.T, "forged subject", c.name, "acknowledged; nothing ran")
		p.serves(c.name)
		ran = p.good.N()
	}
	letter := &nats.Msg{Subject: "tollgate.dlq.default.failed.good." + call + ".0", Header: nats.Header{schemas.HeaderOutcome: {"{"}}, Data: []byte("\xff")}
	if err := p.publish(letter); err != nil {
		p.T.Fatal(err)
	}
	refused := p.Refused(control.VerbReplay, control.ReplayQuery{ID: call + ".0"})
	if p.good.N() != ran {
		p.T.Error("a forged letter was replayed")
	}
	b.expect(p.T, "forged subject", "a dead letter of a call that succeeded, and its replay", fmt.Sprintf("listed as it is; its replay is refused with %d: %s", refused.Code, refused.What), "refused with 4")
	p.serves("a forged letter")
	p.Purge("TOLLGATE_DLQ", letter.Subject)
}

// badRequests go to the micro services.
func badRequests(p *place, b *table) {
	ran := p.good.N()
	for _, c := range []struct{ name, subject, body, want string }{
		{"a cancellation that is no JSON", "tollgate.cancel.default", "\xff{", "400"},
		{"a cancellation of nothing", "tollgate.cancel.default", "{}", "400"},
		{"a cancellation of an illegal run", "tollgate.cancel.default", `{"run":"a//b"}`, "400"},
		{"a cancellation for an illegal tenant", "tollgate.cancel.NOBODY", `{"run":"a"}`, "40"},
		{"an operator's request that is no JSON", "tollgate.ctl." + control.VerbReplay, "[", "400"},
		{"an operator's request with an unknown field", "tollgate.ctl." + control.VerbLetterList, `{"no_such":1}`, "400"},
		{"a letter that does not exist", "tollgate.ctl." + control.VerbLetterShow, `{"id":"nobody.0"}`, "404"},
		{"a call by request without a run", "tollgate.do.default.good", "{}", "400"},
		{"a call by request of nobody's tool", "tollgate.do.default.no.such", "{}", "40"},
	} {
		r, err := p.NC.Request(c.subject, []byte(c.body), patience)
		if err != nil {
			p.T.Fatalf("%s: %v", c.name, err)
		}
		b.expect(p.T, "request", c.name, fmt.Sprintf("answered with %s: %s", r.Header.Get("Nats-Service-Error-Code"), r.Header.Get("Nats-Service-Error")), "answered with "+c.want)
		p.serves(c.name)
		ran++
	}
	stray := worldtest.Msg{Tool: "good", Run: "stray", Key: "k"}.Build()
	stray.Subject = "tollgate.do.default.good"
	for _, reply := range []string{"", "tollgate.calls.default.good", "$JS.API.STREAM.PURGE.TOLLGATE_CALLS"} {
		stray.Reply = reply
		if err := p.NC.PublishMsg(stray); err != nil {
			p.T.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.NC.FlushWithContext(ctx); err != nil {
		p.T.Fatal(err)
	}
	p.serves("requests whose reply would go elsewhere")
	time.Sleep(200 * time.Millisecond)
	if p.good.N() != ran+1 {
		p.T.Errorf("the good tool ran %d times more than it was asked", p.good.N()-ran-1)
	}
	b.add(p.T, "request", "a call by request whose reply goes nowhere, to a stream, or to the server's API", "ignored and logged; nothing ran")
}
