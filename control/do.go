package control

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"tollgate/dispatcher"
	"tollgate/schemas"
)

// do admits a call and answers with its outcome. Failures carry the NATS micro
// error headers beside the outcome, so that any client understands them.
func (s *Server) do(r micro.Request) {
	d := dispatcher.Delivery{Header: schemas.Header(r.Headers()), Body: r.Data(), Endpoint: true, Lane: schemas.Calls,
		Origin: schemas.Origin{Subject: r.Subject(), Time: time.Now().UTC()}}
	if d.Header == nil {
		d.Header = schemas.Header{}
	}
	var err error
	if _, d.Tenant, d.Tool, err = s.cfg.Subjects.ParseSubmit(r.Subject()); err != nil {
		d.Invalid, _ = err.(*schemas.Malformed)
	}
	s.answer(r, s.cfg.Dispatcher.Do(s.serving, s.base, d))
}

func (s *Server) answer(r micro.Request, o *schemas.Outcome) {
	body, err := o.Encode()
	switch code := o.ServiceCode(); {
	case err != nil:
		s.fail(r, Problem{Code: 500, What: err.Error()})
		return
	case code == 0:
		err = r.Respond(body)
	default:
		text := string(o.Status)
		if o.Error != nil {
			text = o.Error.Code
		}
		err = refuse(r, code, text, body)
	}
	if err != nil {
		s.cfg.Log.Warn().Err(err).Str("call", o.Call).Msg("outcome not answered; it is on the results subject")
	}
}

// cancel stops a run or call of the tenant in the subject.
func (s *Server) cancel(r micro.Request) {
	verb(s, func(ctx context.Context, q dispatcher.CancelRequest, by string) (dispatcher.CancelReport, error) {
		q.Tenant, q.By = r.Subject()[strings.LastIndexByte(r.Subject(), '.')+1:], by
		switch {
		case !schemas.ValidTenant(q.Tenant):
			return dispatcher.CancelReport{}, bad("tenant %q is not legal", q.Tenant)
		case (q.Run == "") == (q.Call == ""):
			return dispatcher.CancelReport{}, bad("name a run or a call, and not both")
		case q.Run != "" && !schemas.ValidRun(q.Run):
			return dispatcher.CancelReport{}, bad("run %q is not legal", q.Run)
		}
		return s.cfg.Dispatcher.Cancel(ctx, s.cfg.Ledger, q)
	})(r)
}
