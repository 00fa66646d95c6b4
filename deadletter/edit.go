package deadletter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// Editing says whether letters may be edited, and into what. The zero value: not at all.
type Editing struct {
	Allowed   bool
	Catalogue dispatcher.Catalogue // whose schemas hold for edited arguments
	MaxBody   int                  // most bytes of arguments
}

// EditOptions say what is to be asked instead of a letter's call.
type EditOptions struct {
	Arguments json.RawMessage `json:"arguments,omitempty"` // all of them; nil: the letter's own
	Set       []Assignment    `json:"set,omitempty"`       // on top of these, in this order
	Window    time.Duration   `json:"window,omitempty"`    // time from now; 0: the call's original window
	By        string          `json:"by"`
	Why       string          `json:"why,omitempty"` // required, but for a dry run
	DryRun    bool            `json:"dry_run,omitempty"`
}

// Edited is what an edit has made of a letter, or would make.
type Edited struct {
	ID        string
	Letter    schemas.Letter
	Call, Key string    // of the new call; "" while its arguments are not fit to have one
	Deadline  time.Time // zero: it is not known
	Before    []byte    // the arguments as they are stored
	After     []byte    // nil: they could not be made
	Published bool      // the new call is in its stream; else it is owed, and tried again
	Again     bool      // the same edit was made before, and nothing more was done
	Problems  []*Refused
}

// Edit makes another call of an active letter, with other arguments, and resolves the
// letter by it. The call is a new one: it has its own key, runs in the same run and pays
// as any call does.
//
// The order of effects: one commit resolves the letter, links it to the new call and
// owes the new call's message; then the message is published; then the ledger notes
// that it was. A crash before the commit leaves the letter as it was. One after it
// leaves the message owed, and the next start publishes it. One after the publish
// publishes it again, and the key, which is derived from the letter and the arguments,
// makes both one call. So is the same edit made twice: the second changes nothing.
//
// What is not allowed is refused with the first of its problems, a dry run tells all.
func (o *Operations) Edit(ctx context.Context, id string, opt EditOptions) (Edited, error) {
	call, generation, err := dedupe.ParseLetterID(id)
	if err != nil {
		return Edited{}, err
	}
	l, err := o.Store.Get(ctx, call, generation)
	if err != nil {
		return Edited{}, err
	}
	e := Edited{ID: l.ID, Letter: l, Before: []byte(l.Arguments)}
	q, fixed := o.edited(&e, opt) // the same at every try of the commit
	d := decision{id: l.ID, action: "edit", by: opt.By, why: opt.Why}
	now := time.Now()
	var record *dedupe.Record
	receipt, err := o.Ledger.Update(ctx, dedupe.Ref{Tenant: l.Tenant, Root: schemas.Root(l.Run), Call: l.Call}, func(v dedupe.View) dedupe.Change {
		record, e.Problems = nil, fixed
		r, before := v.Record, standing(&l, v.Record)
		if e.Again = len(fixed) == 0 && r != nil && r.Generation == l.Generation && r.EditedTo == e.Call; e.Again {
			return dedupe.Change{}
		}
		if e.Problems = append(slices.Clone(fixed), editable(v, &l, now)...); r != nil {
			window := r.Terms.Window
			if opt.Window > 0 {
				window = opt.Window
			}
			e.Deadline = now.Add(window)
		}
		if opt.DryRun {
			return dedupe.Change{}
		}
		if len(e.Problems) > 0 {
			return dedupe.Change{Audit: d.refusal(&l, now, before, e.Problems[0])}
		}
		record = r
		become(record, q, e, note(opt.By, "edited", opt.Why), now)
		d.detail = fmt.Sprintf("call=%s key=%s deadline=%s", e.Call, e.Key, stamp(e.Deadline))
		return dedupe.Change{Record: record, Audit: []dedupe.Audit{d.audit(&l, now, before+", arguments "+o.hash(&l, e.Before),
			string(schemas.LetterResolved)+", edited to call "+e.Call+", arguments "+o.hash(&l, e.After))}}
	})
	if err != nil {
		return e, err
	}
	o.Publisher.PublishReceipt(nil, receipt)
	if len(e.Problems) > 0 && !opt.DryRun {
		return e, e.Problems[0]
	}
	e.Published = record != nil && o.Publisher.PublishSlot(ctx, record)
	return e, nil
}

// become resolves the letter of a record by the call that it owes from now on.
func become(r *dedupe.Record, q *schemas.Request, e Edited, note string, now time.Time) {
	q.Deadline = e.Deadline
	q.Header.Set(schemas.HeaderDeadline, stamp(e.Deadline))
	r.Letter, r.LetterSettled, r.Note = schemas.LetterResolved, now, note
	r.Slot, r.Request, r.EditedTo = dedupe.SlotEdit, q, e.Call
}

// edited makes the new call's request, its deadline excepted, and says what keeps it
// from being one whatever has become of the letter.
func (o *Operations) edited(e *Edited, opt EditOptions) (*schemas.Request, []*Refused) {
	l := &e.Letter
	var problems []*Refused
	add := func(r Refused) {
		r.ID = l.ID
		problems = append(problems, &r)
	}
	if !o.Editing.Allowed {
		add(Refused{Denied: true, Why: "editing is not allowed here", Try: "dead_letters: { allow_edit: true } in the dispatcher's configuration, and a restart"})
	}
	if opt.Why == "" && !opt.DryRun {
		add(Refused{Invalid: true, Why: "an edit needs a reason", Try: "--reason 'INC-412: the amount was in euros'"})
	}
	var refused *Refused
	if errors.As(o.allowed(*l, ReplayOptions{}), &refused) {
		add(*refused)
		return nil, problems
	}
	q, err := request(*l)
	if err != nil {
		add(Refused{Why: "it cannot be edited: " + err.Error(), Try: "submit the call again with a new key"})
		return nil, problems
	}
	tool, served := o.Editing.Catalogue.Tool(l.Tool)
	if !served || !o.Editing.Catalogue.Allowed(l.Tenant, l.Tool) {
		add(Refused{Why: fmt.Sprintf("tenant %s may not call %s any more", l.Tenant, l.Tool), Try: "allow it in the configuration, or discard the letter"})
		return nil, problems
	}
	body, fingerprint, err := o.arguments(e.Before, tool, opt)
	e.After = body
	if err != nil {
		add(Refused{Invalid: true, Why: err.Error(), Try: "other arguments; tollgate tools show " + l.Tool + " has their schema"})
	}
	if fingerprint == "" {
		return nil, problems
	}
	if was, err := dedupe.Fingerprint(e.Before); err == nil && was == fingerprint {
		add(Refused{Invalid: true, Why: "the arguments do not change", Try: "tollgate dlq replay " + l.ID})
	}
	e.Key = dedupe.EditedKey(q.Key, l.ID, fingerprint)
	e.Call = dedupe.CallID(l.Tenant, schemas.Root(q.Run), l.Tool, e.Key)
	q.Key, q.Body, q.Header = e.Key, body, q.Header.Clone()
	q.Header.Set(schemas.HeaderKey, e.Key)
	q.Header.Set(schemas.HeaderReplayOf, l.ID)
	return q, problems
}

// arguments are the new ones and their fingerprint, which is empty when they are no
// arguments at all. An error with a fingerprint is what the tool's schema has against them.
func (o *Operations) arguments(stored []byte, tool *dispatcher.Tool, opt EditOptions) (body []byte, fingerprint string, err error) {
	body = stored
	if opt.Arguments != nil {
		if body, err = unmask(opt.Arguments, stored, tool.Redact); err != nil {
			return nil, "", fmt.Errorf("the arguments: %w", err)
		}
	}
	for _, a := range opt.Set {
		if body, err = assign(body, a); err != nil {
			return nil, "", err
		}
	}
	if len(body) > o.Editing.MaxBody {
		return nil, "", fmt.Errorf("the arguments have %d bytes, at most %d", len(body), o.Editing.MaxBody)
	}
	if fingerprint, err = dedupe.Fingerprint(body); err != nil {
		return nil, "", fmt.Errorf("the arguments: %w", err)
	}
	if tool.Arguments != nil {
		if err := tool.Arguments.Validate(body); err != nil {
			return body, fingerprint, fmt.Errorf("the arguments break the schema of %s: %w", tool.Name, err)
		}
	}
	return body, fingerprint, nil
}

// editable says why a letter may not be edited now: what the ledger has against it.
func editable(v dedupe.View, l *schemas.Letter, now time.Time) []*Refused {
	no := func(conflict bool, try, format string, args ...any) []*Refused {
		return []*Refused{{ID: l.ID, Why: fmt.Sprintf(format, args...), Try: try, Conflict: conflict}}
	}
	r := v.Record
	switch {
	case r == nil:
		return no(false, "submit the call again with a new key", "its ledger record has expired")
	case r.Generation > l.Generation:
		return no(true, "", "it was %s already (generation %d is %s)", opened(r), r.Generation, r.State)
	case !ours(r, l):
		return no(false, "", "it does not tell the call the ledger recorded; it may be forged")
	case r.EditedTo != "":
		return no(true, "tollgate calls show "+r.EditedTo, "it was edited already, into call %s", r.EditedTo)
	case r.State != dedupe.Dead || r.Letter != schemas.LetterActive:
		return no(true, "tollgate dlq show "+l.ID, "it is %s", r.Letter)
	case v.Unpublished:
		return []*Refused{{ID: l.ID, Why: "its outcome is still being published", Try: "again in a moment", Conflict: true, Again: true}}
	case r.Ambiguous: // another key is no protection against the first effect
		return no(false, "tollgate dlq resolve "+l.ID+" --happened or --did-not-happen", "nobody knows whether its effect happened")
	case v.Run == nil || schemas.Root(r.Run) != schemas.Root(l.Run): // another run has paid for a replay: nothing is known of this one
		return nil
	case v.Run.Cancelled(l.Run):
		return no(false, "submit the call in another run", "its run %s was cancelled", l.Run)
	}
	full := v.Run.Check(l.Run, r.Terms.Write())
	at, scope := v.Run.Deadline(l.Run)
	switch {
	case full.Dimension != 0:
		return no(false, "tollgate runs grant "+full.Scope, "run %s has no %s left", full.Scope, full.Dimension)
	case now.Add(r.Terms.Timeout).After(at):
		return no(false, "tollgate runs grant "+scope+" --elapsed 10m", "the deadline of run %s, %s, leaves no time for an attempt", scope, at.UTC().Format(time.RFC3339))
	}
	return nil
}

// ours reports whether a letter is what the ledger knows of its call: the same outcome,
// the same arguments, under the same key of the same run.
func ours(r *dedupe.Record, l *schemas.Letter) bool {
	f, err := dedupe.Fingerprint([]byte(l.Arguments))
	return r.Outcome != nil && l.Outcome != nil && r.Outcome.ID == l.Outcome.ID && r.Root == schemas.Root(l.Run) && (l.BodyLost || err == nil && f == r.Fingerprint)
}

// hash names arguments in the audit, which never holds any. Of a tool whose arguments are
// hidden in part there is none: a short value could be found by trying.
func (o *Operations) hash(l *schemas.Letter, arguments []byte) string {
	if tool, ok := o.Editing.Catalogue.Tool(l.Tool); ok && len(tool.Redact) > 0 {
		return "hidden in part"
	}
	f, err := dedupe.Fingerprint(arguments)
	if err != nil {
		return "unreadable"
	}
	return "sha256:" + f[:16]
}

// Shown is the arguments before and after, with what is redacted hidden: where it has
// changed, that alone is said.
func (o *Operations) Shown(e Edited) (before, after []byte) {
	tool, ok := o.Editing.Catalogue.Tool(e.Letter.Tool)
	if !ok {
		tool = &dispatcher.Tool{}
	}
	before, _ = Redact(e.Before, tool.Redact)
	after = masked(e.After, tool.Redact, func(p string) string {
		was, _ := lookUp(e.Before, p)
		if is, _ := lookUp(e.After, p); bytes.Equal(was, is) {
			return Mask
		}
		return Mask + " (changed)"
	})
	return before, after
}
