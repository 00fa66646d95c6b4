package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	Undetermined Verdict = "undetermined"   // noted; nothing changes
)

// ResolveOptions say what happened and who says so.
type ResolveOptions struct {
	Verdict Verdict         `json:"verdict"`
	Result  json.RawMessage `json:"result,omitempty"` // of happened
	By      string          `json:"by"`
	Why     string          `json:"why,omitempty"`
}

// Resolve settles an unknown outcome by hand. "happened" opens a generation that
// dispatches nothing and succeeds with the given result.
func (o *Operations) Resolve(ctx context.Context, id string, opt ResolveOptions) error {
	if opt.Result != nil && !json.Valid(opt.Result) {
		return &Refused{ID: id, Why: "the result is not JSON"}
	}
	return o.change(ctx, id, "resolve", opt.By, opt.Why, string(opt.Verdict), func(r *dedupe.Record, now time.Time) (bool, error) {
		switch {
		case r.Letter != schemas.LetterActive:
			return false, &Refused{ID: id, Why: fmt.Sprintf("it is %s", r.Letter), Conflict: true}
		case r.Outcome == nil || r.Outcome.Status == schemas.Rejected: // it never was a call: there is nothing that could have happened
			return false, &Refused{ID: id, Why: "the message was refused and is no call", Try: "tollgate dlq discard " + id}
		}
		switch opt.Verdict {
		case Happened:
			succeed(r, opt, now)
			return true, nil
		case DidNotHappen:
			r.Ambiguous, r.Note = false, note(opt.By, "did not happen", opt.Why)
		case Undetermined:
			r.Note = note(opt.By, "undetermined", opt.Why)
		default:
			return false, &Refused{ID: id, Why: fmt.Sprintf("%q is no verdict", opt.Verdict), Try: "happened, did_not_happen or undetermined"}
		}
		return false, nil
	})
}

func succeed(r *dedupe.Record, opt ResolveOptions, now time.Time) {
	out := *r.Outcome
	r.Generation++
	out.ID = fmt.Sprintf("%s.%d.resolved", r.Call, r.Generation)
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

func note(by, what, why string) string {
	s := what + " (" + by + ")"
	if why != "" {
		s += ": " + why
	}
	return s
}

// Discard puts a letter aside. It stays in the stream and can be restored.
func (o *Operations) Discard(ctx context.Context, id, by, why string) error {
	return o.setState(ctx, id, "discard", by, why, schemas.LetterActive, schemas.LetterDiscarded)
}

// Restore makes a discarded letter active again.
func (o *Operations) Restore(ctx context.Context, id, by, why string) error {
	return o.setState(ctx, id, "restore", by, why, schemas.LetterDiscarded, schemas.LetterActive)
}

func (o *Operations) setState(ctx context.Context, id, action, by, why string, from, to schemas.LetterState) error {
	return o.change(ctx, id, action, by, why, string(to), func(r *dedupe.Record, now time.Time) (bool, error) {
		if r.Letter != from {
			return false, &Refused{ID: id, Why: fmt.Sprintf("it is %s, not %s", r.Letter, from), Conflict: true}
		}
		r.Letter, r.LetterSettled, r.Note = to, now, note(by, string(to), why)
		return false, nil
	})
}

// change commits an operation on the letter of a record's current generation. do
// reports whether there is a new outcome to publish.
func (o *Operations) change(ctx context.Context, id, action, by, why, detail string, do func(*dedupe.Record, time.Time) (bool, error)) error {
	call, generation, err := dedupe.ParseLetterID(id)
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
		record, refused = v.Record, nil
		switch {
		case record == nil:
			record = orphan(l)
		case record.Generation != generation || record.State != dedupe.Dead:
			refused = &Refused{ID: id, Why: fmt.Sprintf("it was replayed already (generation %d is %s)", record.Generation, record.State), Conflict: true}
			return dedupe.Change{}
		case v.Unpublished:
			refused = &Refused{ID: id, Why: "its outcome is still being published", Try: "again in a moment", Conflict: true}
			return dedupe.Change{}
		}
		publish, err := do(record, now)
		if refused = err; err != nil {
			return dedupe.Change{}
		}
		return dedupe.Change{Record: record, Result: publish, Audit: []dedupe.Audit{{At: now, Tenant: l.Tenant, Action: action, Target: id, By: by, Why: why, Allowed: true, Detail: detail}}}
	})
	if err = errors.Join(err, refused); err != nil {
		return err
	}
	o.Publisher.PublishReceipt(record, receipt)
	return nil
}

// orphan is a record for a letter that has none: the message was refused, or the
// record has expired. It holds the letter's state and is no answer to any call.
func orphan(l schemas.Letter) *dedupe.Record {
	return &dedupe.Record{Call: l.Call, Tenant: l.Tenant, Lane: l.Lane, Root: schemas.Root(l.Run), Run: l.Run, Tool: l.Tool, Key: l.Key,
		State: dedupe.Dead, Generation: l.Generation, Letter: schemas.LetterActive, LetterReason: l.Reason, Outcome: l.Outcome, Settled: l.DiedAt}
}
