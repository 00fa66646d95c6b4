package control

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"tollgate/deadletter"
)

// asked is a request that remembers its answers.
type asked struct {
	micro.Request
	body    []byte
	answers []*nats.Msg
}

func (a *asked) Data() []byte           { return a.body }
func (a *asked) Headers() micro.Headers { return micro.Headers{} }
func (a *asked) Subject() string        { return "tollgate.ctl.test" }
func (a *asked) Respond(body []byte, opts ...micro.RespondOpt) error {
	m := &nats.Msg{Data: body}
	for _, o := range opts {
		o(m)
	}
	a.answers = append(a.answers, m)
	return nil
}

// Whatever an operator's request holds, it gets one answer, and the question is asked
// only when all of it was understood.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "{}", `{"filter":{"since":"2026-11-30T12:00:00Z"},"ids":["c.0"]}`, `{"no_such":1}`, `{"limit":1e999}`, "[]", "null", `{"id":"x"} {"id":"y"}`, `{"id":"\ud800"}`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &Server{cfg: Config{NATS: &nats.Conn{}, Log: zerolog.Nop()}, base: t.Context()}
		one(t, s, body, func(q deadletter.Filter) error { return q.Check() })
		one(t, s, body, func(IDQuery) error { return nil })
		one(t, s, body, func(RunQuery) error { return nil })
		one(t, s, body, func(ToolQuery) error { return nil })
	})
}

func one[Q any](t *testing.T, s *Server, body []byte, check func(Q) error) {
	t.Helper()
	r, called := &asked{body: body}, false
	verb(s, func(_ context.Context, q Q, by string) (Empty, error) {
		called = true
		if by == "" {
			t.Error("nobody asks")
		}
		if err := check(q); err != nil {
			return Empty{}, bad("%v", err)
		}
		return Empty{}, nil
	})(r)
	if len(r.answers) != 1 {
		t.Fatalf("%q: %d answers", body, len(r.answers))
	}
	failed := r.answers[0].Header.Get("Nats-Service-Error-Code")
	switch {
	case !called && failed != "400" && failed != "413":
		t.Errorf("%q: not asked, and answered with %q", body, failed)
	case strings.ContainsAny(r.answers[0].Header.Get("Nats-Service-Error"), "\r\n"), !json.Valid(r.answers[0].Data):
		t.Errorf("%q: answered %q", body, r.answers[0].Data)
	}
}
