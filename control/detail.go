package control

import (
	"context"
	"errors"
	"strings"

	"tollgate/budget"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// Where the arguments of a call are still kept.
const (
	KeptInLedger = "ledger" // it waits for an attempt, or its letter is not stored yet
	KeptInLetter = "letter"
	KeptInStream = "stream" // the message it came in is not settled yet
)

// mostOfCall is how much of a call's arguments, and of each part of its result, is
// shown: in JSON a byte may take six, and all has to fit a message.
const mostOfCall = 48 << 10

// arguments finds what a call was asked with, where it is still kept.
func (s *Server) arguments(ctx context.Context, r *dedupe.Record) (body []byte, header schemas.Header, from string, err error) {
	if r.Request != nil && r.Slot != dedupe.SlotEdit {
		return r.Request.Body, r.Request.Header, KeptInLedger, nil
	}
	if r.Letter != "" {
		l, err := s.cfg.Letters.Store.Get(ctx, r.Call, r.Generation)
		if err == nil && !l.BodyLost {
			return []byte(l.Arguments), l.Header, KeptInLetter, nil
		}
		if err != nil && !errors.Is(err, deadletter.ErrNotFound) {
			return nil, nil, "", err
		}
	}
	q, err := s.cfg.Requests.Fetch(ctx, r.Origin)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil, nil, "", nil
	}
	return q.Body, q.Header, KeptInStream, err
}

// fill adds what a call was asked with, hides in all of it what the configuration hides
// of the arguments, and keeps it to a size that can be answered. A call that succeeded
// has left nothing but its result, which is shown as the tool gave it.
func (s *Server) fill(ctx context.Context, d *CallDetail, r *dedupe.Record) {
	body, header, from, err := s.arguments(ctx, r)
	if err != nil {
		d.ArgumentsError = err.Error()
	}
	shown, hidden := body, deadletter.Hidden{}
	if p := s.pointers(r.Tool); len(p) > 0 && from != "" {
		shown, hidden = deadletter.Redact(body, p)
	}
	if d.ArgumentsFrom = from; from != "" {
		d.Arguments, d.ArgumentsBytes, d.Header = begins(string(shown)), len(body), header.Clone()
	}
	for _, values := range d.Header {
		for i, v := range values {
			values[i] = hidden.Text(v)
		}
	}
	d.Outcome, d.Timeline = shorten(hidden.Outcome(d.Outcome), d), hidden.Attempts(d.Timeline)
	if run, err := s.cfg.Ledger.Run(r.Tenant, schemas.Root(r.Run)); err == nil {
		for _, p := range budget.Paths(r.Run) {
			if a, ok := run.Accounts[p]; ok {
				d.Accounts = append(d.Accounts, a)
			}
		}
	}
}

// shorten is an outcome of which only the beginning is shown, when it is large.
func shorten(o *schemas.Outcome, d *CallDetail) *schemas.Outcome {
	if o == nil {
		return nil
	}
	c, all := *o, len(o.Structured)
	c.Content = nil
	for _, x := range o.Content {
		all += len(x.Text)
		x.Text = begins(x.Text)
		if len(c.Content) == 0 || all <= mostOfCall {
			c.Content = append(c.Content, x)
		}
	}
	if len(c.Structured) > mostOfCall {
		c.Structured = nil
	}
	if all > mostOfCall {
		d.ResultBytes = all
	}
	return &c
}

func begins(text string) string {
	if len(text) > mostOfCall {
		return strings.ToValidUTF8(text[:mostOfCall], "")
	}
	return text
}
