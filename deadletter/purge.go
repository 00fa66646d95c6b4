package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// PurgeOptions say who removes a letter for good, and whether one may go that nobody
// has dealt with.
type PurgeOptions struct {
	By     string `json:"by"`
	Why    string `json:"why,omitempty"`
	Active bool   `json:"active,omitempty"`
}

// Purge removes a letter from the stream. That is decided and audited in the ledger
// first: a process that dies in between leaves a letter that says it is purged, and
// the next expiry takes it.
func (o *Operations) Purge(ctx context.Context, id string, opt PurgeOptions) error {
	call, generation, err := dedupe.ParseLetterID(id)
	if err != nil {
		return err
	}
	l, err := o.Store.Get(ctx, call, generation)
	if err != nil {
		return err
	}
	d := decision{id: id, action: "purge", by: opt.By, why: opt.Why}
	now := time.Now()
	var refused error
	receipt, err := o.Ledger.Update(ctx, dedupe.Ref{Tenant: l.Tenant, Root: schemas.Root(l.Run), Call: call}, func(v dedupe.View) dedupe.Change {
		before := standing(&l, v.Record)
		if refused = purgeable(v, &l, opt); refused != nil {
			return dedupe.Change{Audit: d.refusal(&l, now, before, refused)}
		}
		c := dedupe.Change{Audit: []dedupe.Audit{d.audit(&l, now, before, string(schemas.LetterPurged))}}
		if r := v.Record; r != nil && r.Generation == generation && r.Letter != "" {
			r.Letter, r.LetterSettled, r.Note = schemas.LetterPurged, now, note(opt.By, string(schemas.LetterPurged), opt.Why)
			c.Record = r
		}
		return c
	})
	if err != nil {
		return errors.Join(err, refused)
	}
	o.Publisher.PublishReceipt(nil, receipt)
	if refused != nil {
		return refused
	}
	if _, err := o.Index.take(ctx, l.Sequence); err != nil {
		return fmt.Errorf("dead letter %s is marked as purged and still in the stream; the next expiry takes it: %w", id, err)
	}
	return nil
}

// purgeable says why a letter may not be removed now, or nil.
func purgeable(v dedupe.View, l *schemas.Letter, opt PurgeOptions) error {
	state, _ := stateOf(l.Reason, l.Generation, v.Record.Standing())
	switch {
	case state == schemas.LetterReplaying:
		return &Refused{ID: l.ID, Why: "it is being replayed", Try: "again when the replay has an outcome", Conflict: true}
	case state == schemas.LetterActive && !opt.Active:
		return &Refused{ID: l.ID, Why: "nobody has dealt with it", Try: "tollgate dlq discard " + l.ID + " first, or tollgate dlq purge --active " + l.ID}
	case v.Record != nil && v.Record.Generation == l.Generation && v.Unpublished:
		return &Refused{ID: l.ID, Why: "its outcome is still being published", Try: "again in a moment", Conflict: true, Again: true}
	}
	return nil
}
