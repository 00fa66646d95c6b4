package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// Refused says why an operation on a letter was not done. Conflict tells an
// operation that came too late from one that may not be done at all.
type Refused struct {
	ID       string
	Why      string
	Try      string
	Conflict bool
	Again    bool // the same may be allowed in a moment

	Denied  bool // the configuration does not allow it
	Invalid bool // what was asked for is wrong, whatever the letter
}

func (r *Refused) Error() string {
	s := fmt.Sprintf("dead letter %s: %s", r.ID, r.Why)
	if r.Try != "" {
		s += "; try: " + r.Try
	}
	return s
}

// Ledger is where operations on letters are committed.
type Ledger interface {
	Records
	Standings
	SetRemark(ctx context.Context, group string, r *dedupe.Remark, a dedupe.Audit) (dedupe.Receipt, error)
	Update(ctx context.Context, ref dedupe.Ref, m dedupe.Mutation) (dedupe.Receipt, error)
}

// Publisher sends what a committed operation owes.
type Publisher interface {
	PublishSlot(ctx context.Context, r *dedupe.Record) bool
	PublishReceipt(r *dedupe.Record, receipt dedupe.Receipt)
}

// Operations are what an operator may do with letters.
type Operations struct {
	Store     *Store
	Index     *Index
	Ledger    Ledger
	Publisher Publisher
	Served    func(tool string) bool
	Editing   Editing
}

// ReplayOptions say who pays for a replay and what it may include.
type ReplayOptions struct {
	By             string        `json:"by"`
	Why            string        `json:"why,omitempty"`
	Grant          budget.Grant  `json:"grant,omitzero"`    // to each account on the path that would refuse
	NewRun         string        `json:"new_run,omitempty"` // another run pays, as a new decision
	Window         time.Duration `json:"window,omitempty"`  // time from now; 0: the call's original window
	IncludeUnknown bool          `json:"include_unknown,omitempty"`
	DryRun         bool          `json:"dry_run,omitempty"`
}

// Replay opens the letter's next generation, in one commit: the payer, the audit
// entry and the wake are in it. It is idempotent by letter: two operators, or a bulk
// replay that is started again, never run one letter twice.
func (o *Operations) Replay(ctx context.Context, id string, opt ReplayOptions) error {
	call, generation, err := dedupe.ParseLetterID(id)
	if err != nil {
		return err
	}
	l, err := o.Store.Get(ctx, call, generation)
	if err != nil {
		return err
	}
	return o.replay(ctx, l, opt, nil)
}

// replay replays a letter that was read whole. With a mark it is an item of a bulk
// replay, which the same commit notes.
func (o *Operations) replay(ctx context.Context, l schemas.Letter, opt ReplayOptions, mark *dedupe.ReplayMark) error {
	q, fixed := request(l) // what the ledger says changes nothing about it
	if fixed != nil {
		fixed = &Refused{ID: l.ID, Why: "it cannot be replayed: " + fixed.Error(), Try: "fix the publisher and discard the letter"}
	} else {
		fixed = o.allowed(l, opt)
	}
	if fixed == nil && opt.NewRun != "" && !opt.DryRun {
		if err := o.openRun(ctx, l, opt.NewRun); err != nil {
			return err
		}
	}
	d := decision{id: l.ID, action: "replay", by: opt.By, why: opt.Why}
	now := time.Now()
	var refused error
	var record *dedupe.Record
	receipt, err := o.Ledger.Update(ctx, dedupe.Ref{Tenant: l.Tenant, Root: schemas.Root(l.Run), Call: l.Call}, func(v dedupe.View) dedupe.Change {
		before := standing(&l, v.Record)
		record = nil
		if refused = fixed; refused == nil {
			refused = replayable(v, l, opt, now)
		}
		switch {
		case opt.DryRun || refused != nil && mark != nil: // a bulk replay counts what it leaves out, and was decided as a whole
			return dedupe.Change{}
		case refused != nil:
			return dedupe.Change{Audit: d.refusal(&l, now, before, refused)}
		}
		record = reopen(v, q, opt, now)
		if mark != nil {
			record.Replay = mark.Replay
		}
		d.detail = replayDetail(record, opt)
		return dedupe.Change{Record: record, Run: v.Run, Mark: mark, Audit: []dedupe.Audit{d.audit(&l, now, before, standing(&l, record))}}
	})
	o.Publisher.PublishReceipt(record, receipt)
	if err = errors.Join(err, refused); err != nil || record == nil {
		return err
	}
	o.Publisher.PublishSlot(ctx, record)
	return nil
}

// replayDetail is who pays for a replay, and until when.
func replayDetail(r *dedupe.Record, opt ReplayOptions) string {
	detail := fmt.Sprintf("payer=%s deadline=%s grant=%+d/%+d/%s", r.Run, stamp(r.Deadline), opt.Grant.Attempts, opt.Grant.SideEffects, opt.Grant.Elapsed)
	if r.Replay != "" {
		detail += " replay=" + r.Replay
	}
	return detail
}

// openRun makes the account that is to pay. On its own it changes nothing.
func (o *Operations) openRun(ctx context.Context, l schemas.Letter, path string) error {
	r, err := o.Ledger.Record(l.Call)
	if err != nil {
		return fmt.Errorf("dead letter %s: %w", l.ID, err)
	}
	now := time.Now()
	var open error
	_, err = o.Ledger.Update(ctx, dedupe.Ref{Tenant: l.Tenant, Root: schemas.Root(path)}, func(v dedupe.View) dedupe.Change {
		run := v.Run
		if run == nil {
			run = budget.New(l.Tenant, schemas.Root(path), now)
		}
		if open = run.Open(path, budget.Named{}, r.Terms.Run, now); open != nil {
			return dedupe.Change{}
		}
		run.Used = now
		return dedupe.Change{Run: run}
	})
	return errors.Join(err, open)
}

// request rebuilds the request from the letter's own bytes.
func request(l schemas.Letter) (*schemas.Request, error) {
	if l.BodyLost {
		return nil, errors.New("the request's bytes were lost")
	}
	if l.Outcome == nil || l.Outcome.Status == schemas.Rejected {
		return nil, errors.New("the message was refused and is no call")
	}
	q, err := schemas.ParseRequest(l.Lane, l.Tenant, l.Tool, l.Header, []byte(l.Arguments), schemas.Defaults{
		Deadline: l.Outcome.Timing.Deadline, Key: func(string, string, []byte) string { return l.Outcome.Key }})
	if err != nil {
		return nil, err
	}
	return &q, nil
}

// replayable says why a letter may not be replayed now, or nil.
func replayable(v dedupe.View, l schemas.Letter, opt ReplayOptions, now time.Time) error {
	r := v.Record
	no := func(conflict bool, try, format string, args ...any) error {
		return &Refused{ID: l.ID, Why: fmt.Sprintf(format, args...), Try: try, Conflict: conflict}
	}
	switch {
	case r == nil:
		return no(false, "submit the call again with a new key", "its ledger record has expired")
	case r.Generation > l.Generation:
		return no(true, "", "it was %s already (generation %d exists)", opened(r), r.Generation)
	case l.Outcome != nil && (r.Outcome == nil || l.Outcome.ID != r.Outcome.ID): // a list has no outcomes
		return no(false, "", "it does not tell the outcome the ledger recorded; it may be forged")
	case r.EditedTo != "":
		return no(true, "tollgate calls show "+r.EditedTo, "it was edited already, into call %s", r.EditedTo)
	case r.State == dedupe.Dead && r.Letter == schemas.LetterDiscarded:
		return no(true, "tollgate dlq restore "+l.ID, "it is discarded")
	case r.State != dedupe.Dead || r.Letter != schemas.LetterActive:
		return no(true, "tollgate dlq show "+l.ID, "it is %s", r.Letter)
	case v.Unpublished:
		return &Refused{ID: l.ID, Why: "its outcome is still being published", Try: "again in a moment", Conflict: true, Again: true}
	case r.Outcome.Status == schemas.UnknownOutcome && r.Ambiguous && !opt.IncludeUnknown:
		return no(false, "tollgate dlq resolve "+l.ID+" --happened or --did-not-happen", "nobody knows whether its effect happened")
	case r.Ambiguous && r.Terms.Safety == dedupe.IdempotencyKey && r.Terms.UnsafeAt(now, r.FirstAttempt):
		return no(false, "resolve it by hand", "its effect may have happened, and the tool may have forgotten its key by now (%s old)", now.Sub(r.FirstAttempt).Round(time.Second))
	case opt.NewRun != "":
		return nil
	case v.Run == nil:
		return no(false, "--new-run", "the budget of its run has expired")
	case v.Run.Cancelled(r.Run):
		return no(false, "--new-run", "its run %s was cancelled", r.Run)
	}
	return payable(v.Run, r, opt, now, no)
}

// payable applies the grant and says what still stands in the way. The view is a
// copy, so a refusal leaves no trace.
func payable(run *budget.Run, r *dedupe.Record, opt ReplayOptions, now time.Time, no func(bool, string, string, ...any) error) error {
	g := opt.Grant
	g.By, g.Why, g.At = opt.By, opt.Why, now
	for _, p := range budget.Paths(r.Run) {
		a := run.Accounts[p]
		refuses := a.Attempts >= a.Limits.Attempts || r.Terms.Write() && a.Effects >= a.Limits.SideEffects || now.Add(r.Terms.Timeout).After(a.Limits.Deadline)
		if refuses && (g.Attempts > 0 || g.SideEffects > 0 || g.Elapsed > 0) {
			run.Grant(p, g)
		}
	}
	if full := run.Check(r.Run, r.Terms.Write()); full.Dimension != 0 {
		return no(false, fmt.Sprintf("--grant %s=1, or --new-run", full.Dimension), "run %s has no %s left", full.Scope, full.Dimension)
	}
	if at, scope := run.Deadline(r.Run); now.Add(r.Terms.Timeout).After(at) {
		return no(false, "--grant elapsed=10m, or --new-run", "the deadline of run %s, %s, leaves no time for an attempt", scope, at.UTC().Format(time.RFC3339))
	}
	return nil
}

// reopen is the record of the next generation: the same key, the same downstream
// key, the same bytes, the original window from now.
func reopen(v dedupe.View, q *schemas.Request, opt ReplayOptions, now time.Time) *dedupe.Record {
	r := v.Record
	window := r.Terms.Window
	if opt.Window > 0 {
		window, r.Terms.Window = opt.Window, opt.Window
	}
	r.State, _ = r.State.Next(dedupe.Reopen)
	r.Generation++
	r.Token++
	r.Tries, r.Recoveries, r.OnLane, r.Released, r.Cancel = 0, 0, false, false, ""
	r.Published, r.Deadline, r.Due = now, now.Add(window), now
	r.Request, r.Slot, r.Outcome = q, dedupe.SlotWake, nil
	r.Letter, r.LetterReason, r.Note, r.ReplayBy, r.Replay = "", "", "", opt.By, ""
	if r.Terms.UnsafeAt(now, r.FirstAttempt) {
		r.Ambiguous = false // an operator has decided that it may run again
	}
	if opt.NewRun != "" && opt.NewRun != r.Run {
		r.PaidUntilNow(r.Run, r.Terms.Write())
		r.Run = opt.NewRun
	}
	return r
}
