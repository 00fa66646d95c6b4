package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Verdict is an operator's word on what became of an uncertain effect.
type Verdict string

// The verdicts.
const (
	Happened     Verdict = "happened"       // the result is stored and published
	DidNotHappen Verdict = "did_not_happen" // the letter may be replayed
	Undetermined Verdict = "undetermined"   // noted; did_not_happen is taken back
)

// ResolveOptions say what happened and who says so.
type ResolveOptions struct {
	Verdict Verdict         `json:"verdict"`
	Result  json.RawMessage `json:"result,omitempty"` // of happened
	By      string          `json:"by"`
	Why     string          `json:"why,omitempty"`
}

// maxResolved bounds a result that an operator gives: it is in the outcome twice, as
// text and as it is, and JSON may write a byte as six.
const maxResolved = 96 << 10

// Resolve settles an unknown outcome by hand. "happened" opens a generation that
// dispatches nothing and succeeds with the given result.
func (o *Operations) Resolve(ctx context.Context, id string, opt ResolveOptions) error {
	d := decision{id: id, action: "resolve", by: opt.By, why: opt.Why, detail: string(opt.Verdict)}
	return o.change(ctx, d, func(r *dedupe.Record, now time.Time) (bool, error) {
		switch {
		case r.Letter != schemas.LetterActive:
			return false, &Refused{ID: id, Why: fmt.Sprintf("it is %s", r.Letter), Conflict: true}
		case r.Outcome == nil || r.Outcome.Status == schemas.Rejected: // it never was a call: there is nothing that could have happened
			return false, &Refused{ID: id, Why: "the message was refused and is no call", Try: "tollgate dlq discard " + id}
		case opt.Result != nil && !json.Valid(opt.Result):
			return false, &Refused{ID: id, Why: "the result is not JSON"}
		case len(opt.Result) > maxResolved:
			return false, &Refused{ID: id, Why: fmt.Sprintf("the result has %d bytes, at most %d", len(opt.Result), maxResolved), Try: "store it elsewhere, and give where it is"}
		}
		switch opt.Verdict {
		case Happened:
			succeed(r, opt, now)
			return true, nil
		case DidNotHappen:
			r.Ambiguous, r.Note = false, note(opt.By, "did not happen", opt.Why)
		case Undetermined:
			r.Note = note(opt.By, "undetermined", opt.Why)
			r.Ambiguous = r.Ambiguous || r.Terms.Write() // whoever said that it did not happen was mistaken
		default:
			return false, &Refused{ID: id, Why: fmt.Sprintf("%q is no verdict", opt.Verdict), Try: "happened, did_not_happen or undetermined"}
		}
		return false, nil
	})
}

func succeed(r *dedupe.Record, opt ResolveOptions, now time.Time) {
	out := *r.Outcome
	r.Generation++
	out.ID = fmt.Sprintf("%s.%d%s", r.Call, r.Generation, byHand)
	out.Generation, out.Status, out.IsError, out.Error, out.NextAction = r.Generation, schemas.Succeeded, false, nil, schemas.Return
	out.Structured = opt.Result
	out.Content = []schemas.Content{{Type: "text", Text: string(opt.Result)}}
	if opt.Result == nil {
		out.Content[0].Text = "An operator has established that the effect happened."
	}
	out.Timing.Settled = now
	r.State, r.Outcome, r.Settled, r.Ambiguous = dedupe.Done, &out, now, false
	r.Released = false // an unavailable call would run again when it is asked for
	r.Letter, r.LetterReason, r.Note = "", "", note(opt.By, "happened", opt.Why)
}

// byHand ends the ID of an outcome that an operator gave.
const byHand = ".resolved"

// opened says how the generation after a letter's came to be.
func opened(r *dedupe.Record) string {
	if r.Outcome != nil && strings.HasSuffix(r.Outcome.ID, byHand) {
		return "resolved by hand"
	}
	return "replayed"
}

func note(by, what, why string) string {
	s := what + " (" + by + ")"
	if why != "" {
		s += ": " + why
	}
	return s
}

// Discard puts a letter aside. It stays in the stream and can be restored.
func (o *Operations) Discard(ctx context.Context, id, by, why string) error {
	return o.setState(ctx, decision{id: id, action: "discard", by: by, why: why}, schemas.LetterActive, schemas.LetterDiscarded, string(schemas.LetterDiscarded))
}

// Restore makes a discarded letter active again.
func (o *Operations) Restore(ctx context.Context, id, by, why string) error {
	return o.setState(ctx, decision{id: id, action: "restore", by: by, why: why}, schemas.LetterDiscarded, schemas.LetterActive, "restored")
}

func (o *Operations) setState(ctx context.Context, d decision, from, to schemas.LetterState, what string) error {
	return o.change(ctx, d, func(r *dedupe.Record, now time.Time) (bool, error) {
		if r.Letter != from {
			return false, &Refused{ID: d.id, Why: fmt.Sprintf("it is %s, not %s", r.Letter, from), Conflict: true}
		}
		r.Letter, r.LetterSettled, r.Note = to, now, note(d.by, what, d.why)
		return false, nil
	})
}

// decision is one operator's, about one letter, as the audit tells it.
type decision struct{ id, action, by, why, detail string }

func (d decision) audit(l *schemas.Letter, now time.Time, before, after string) dedupe.Audit {
	return dedupe.Audit{At: now, Tenant: l.Tenant, Action: d.action, Target: d.id, By: d.by, Why: d.why, Allowed: true, Detail: d.detail, Before: before, After: after}
}

// refusal is the audit entry of a decision that was not carried out. One that only
// came too early has none: whoever asks again decides again.
func (d decision) refusal(l *schemas.Letter, now time.Time, before string, refused error) []dedupe.Audit {
	a := d.audit(l, now, before, "")
	a.Allowed, a.Detail = false, refused.Error()
	var r *Refused
	if errors.As(refused, &r) {
		if a.Detail = r.Why; r.Again {
			return nil
		}
	}
	return []dedupe.Audit{a}
}

// standing is how a letter stands, in words for the audit.
func standing(l *schemas.Letter, r *dedupe.Record) string {
	state, _ := stateOf(l.Reason, l.Generation, r.Standing())
	s := string(state)
	if r != nil && r.Generation > l.Generation {
		s += fmt.Sprintf(" by generation %d, %s", r.Generation, r.State)
	}
	return s
}

// change commits an operation on the letter of a record's current generation, or that
// it was refused. do reports whether there is a new outcome to publish.
func (o *Operations) change(ctx context.Context, d decision, do func(*dedupe.Record, time.Time) (bool, error)) error {
	call, generation, err := dedupe.ParseLetterID(d.id)
	if err != nil {
		return err
	}
	l, err := o.Store.Get(ctx, call, generation)
	if err != nil {
		return err
	}
	now := time.Now()
	var refused error
	var record *dedupe.Record
	receipt, err := o.Ledger.Update(ctx, dedupe.Ref{Tenant: l.Tenant, Root: schemas.Root(l.Run), Call: call}, func(v dedupe.View) dedupe.Change {
		before, publish := standing(&l, v.Record), false
		record = v.Record
		if refused = changeable(v, d.id, generation); refused == nil {
			if record == nil {
				record = orphan(l)
			}
			publish, refused = do(record, now)
		}
		if refused != nil {
			return dedupe.Change{Audit: d.refusal(&l, now, before, refused)}
		}
		return dedupe.Change{Record: record, Result: publish, Audit: []dedupe.Audit{d.audit(&l, now, before, standing(&l, record))}}
	})
	if err != nil {
		return errors.Join(err, refused)
	}
	if refused != nil {
		record = nil // nothing of it has changed
	}
	o.Publisher.PublishReceipt(record, receipt)
	return refused
}

// changeable says why nothing can be done about the letter of a generation now, or nil.
func changeable(v dedupe.View, id string, generation int) error {
	switch r := v.Record; {
	case r == nil:
		return nil
	case r.Generation != generation || r.State != dedupe.Dead:
		return &Refused{ID: id, Why: fmt.Sprintf("it was %s already (generation %d is %s)", opened(r), r.Generation, r.State), Conflict: true}
	case v.Unpublished:
		return &Refused{ID: id, Why: "its outcome is still being published", Try: "again in a moment", Conflict: true, Again: true}
	}
	return nil
}

// orphan is a record for a letter that has none: the message was refused, or the
// record has expired. It holds the letter's state and is no answer to any call.
func orphan(l schemas.Letter) *dedupe.Record {
	return &dedupe.Record{Call: l.Call, Tenant: l.Tenant, Lane: l.Lane, Root: schemas.Root(l.Run), Run: l.Run, Tool: l.Tool, Key: l.Key,
		State: dedupe.Dead, Generation: l.Generation, Letter: schemas.LetterActive, LetterReason: l.Reason, Outcome: l.Outcome, Settled: l.DiedAt}
}
