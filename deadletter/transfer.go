package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Parcel is a letter as it is stored, to be taken out and brought back.
type Parcel struct {
	Subject string
	Header  schemas.Header
	Body    []byte
}

// Export returns a letter as it is stored.
func (o *Operations) Export(ctx context.Context, id string) (Parcel, error) {
	call, generation, err := dedupe.ParseLetterID(id)
	if err != nil {
		return Parcel{}, err
	}
	m, err := o.Store.raw(ctx, call, generation)
	if err != nil {
		return Parcel{}, err
	}
	h := schemas.Header(m.Header).Clone()
	for k := range h {
		if schemas.ServerHeader(k) {
			delete(h, k)
		}
	}
	return Parcel{Subject: m.Subject, Header: h, Body: m.Data}, nil
}

// Import brings a letter back that is not in the stream any more, and reports whether
// it was missing. It never makes a letter that the ledger would contradict: the call
// must have died in that generation, of that outcome, with those arguments. A refusal
// has no record, so only what its subject and headers say can be checked.
func (o *Operations) Import(ctx context.Context, p Parcel, by, why string) (id string, added bool, err error) {
	l := read(o.Store.subjects, &jetstream.RawStreamMsg{Subject: p.Subject, Header: nats.Header(p.Header), Data: p.Body})
	forged := genuine(&l, p)
	if l.Call == "" { // there is nothing that the decision could be about
		return l.ID, false, forged
	}
	switch there, err := o.Store.Get(ctx, l.Call, l.Generation); {
	case forged != nil: // refused and audited below
	case err == nil && there.Outcome != nil && there.Outcome.ID == l.Outcome.ID && there.Reason == l.Reason:
		return l.ID, false, nil
	case err == nil:
		return l.ID, false, &Refused{ID: l.ID, Why: "the stream holds it with another outcome", Conflict: true}
	case !errors.Is(err, ErrNotFound):
		return l.ID, false, err
	}
	d := decision{id: l.ID, action: "import", by: by, why: why}
	now := time.Now()
	var refused error
	receipt, err := o.Ledger.Update(ctx, dedupe.Ref{Tenant: l.Tenant, Root: schemas.Root(l.Run), Call: l.Call}, func(v dedupe.View) dedupe.Change {
		if refused = forged; refused == nil {
			refused = o.importable(v, &l)
		}
		if refused != nil {
			return dedupe.Change{Audit: d.refusal(&l, now, "absent", refused)}
		}
		c := dedupe.Change{}
		if r := v.Record; r != nil && r.Letter == schemas.LetterPurged {
			r.Letter, r.LetterSettled, r.Note = schemas.LetterDiscarded, now, note(by, "imported", why) // restore is a decision of its own
			if r.EditedTo != "" {
				// Another call runs in its place.
				r.Letter = schemas.LetterResolved
			}
			c.Record = r
		}
		c.Audit = []dedupe.Audit{d.audit(&l, now, "absent", standing(&l, v.Record))}
		return c
	})
	if err != nil {
		return l.ID, false, errors.Join(err, refused)
	}
	o.Publisher.PublishReceipt(nil, receipt)
	if refused != nil {
		return l.ID, false, refused
	}
	return l.ID, true, o.Store.put(ctx, p, l.Outcome.ID)
}

func (s *Store) put(ctx context.Context, p Parcel, outcome string) error {
	m := &nats.Msg{Subject: p.Subject, Header: nats.Header(p.Header), Data: p.Body}
	_, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(0))
	return s.confirm(ctx, p.Subject, outcome, err)
}

// genuine says what keeps a parcel from being a letter of ours.
func genuine(l *schemas.Letter, p Parcel) error {
	no := func(format string, args ...any) error {
		return &Refused{ID: l.ID, Why: fmt.Sprintf(format, args...), Try: "the line as it was exported"}
	}
	for k := range p.Header {
		if schemas.ServerHeader(k) {
			return no("its header %q is the server's own", k)
		}
	}
	refusal := l.Reason == schemas.ReasonMalformed || l.Reason == schemas.ReasonRejected
	switch {
	case l.Call == "":
		return no("%q is not the subject of a dead letter", p.Subject)
	case l.Outcome == nil:
		return no("it has no outcome that can be read")
	case schemas.Header(p.Header).Get(schemas.HeaderReason) != l.Reason:
		return no("its subject and its headers tell different reasons")
	case refusal != (l.Outcome.Status == schemas.Rejected):
		return no("a letter of reason %s cannot have the outcome %s", l.Reason, l.Outcome.Status)
	case !refusal && (l.Outcome.Call != l.Call || l.Outcome.Generation != l.Generation):
		return no("its outcome is of another call")
	}
	return nil
}

// importable says what the ledger has against a letter, or nil.
func (o *Operations) importable(v dedupe.View, l *schemas.Letter) error {
	no := func(conflict bool, try, format string, args ...any) error {
		return &Refused{ID: l.ID, Why: fmt.Sprintf(format, args...), Try: try, Conflict: conflict}
	}
	r := v.Record
	refusal := l.Reason == schemas.ReasonMalformed || l.Reason == schemas.ReasonRejected
	switch {
	case r == nil && refusal:
		return nil
	case r == nil:
		return no(false, "submit the call again with a new key", "the ledger does not know its call: it has expired, or is another ledger's")
	case r.Generation > l.Generation:
		return no(true, "", "it was %s already (generation %d is %s)", opened(r), r.Generation, r.State)
	case r.Generation < l.Generation || r.State != dedupe.Dead || r.Outcome == nil || r.Outcome.ID != l.Outcome.ID:
		return no(true, "", "the ledger has another end of this call (generation %d is %s)", r.Generation, r.State)
	case r.LetterReason != l.Reason || r.Tenant != l.Tenant || r.Tool != l.Tool:
		return no(false, "", "the ledger recorded it as %s of %s", r.LetterReason, r.Tool)
	case v.Unpublished:
		return &Refused{ID: l.ID, Why: "its outcome is still being published", Try: "again in a moment", Conflict: true, Again: true}
	case refusal || l.BodyLost:
		return nil
	}
	if f, err := dedupe.Fingerprint(json.RawMessage(l.Arguments)); err != nil || f != r.Fingerprint {
		return no(false, "the line as it was exported", "its arguments are not those of the call")
	}
	return nil
}
