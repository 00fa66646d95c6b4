package deadletter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tollgate/dedupe"
)

// maxNote bounds a note: it is shown in lists.
const maxNote = 500

// Note writes down what an operator knows, on a letter or on a group (an ID that
// begins with "g-"). An empty text takes the note away. A letter's note is over when
// the letter is resolved, discarded or replayed: that has a why of its own. A group's
// is over with the last of the letters that were there when it was written.
func (o *Operations) Note(ctx context.Context, id, by, text string) error {
	if text = strings.TrimSpace(text); len(text) > maxNote {
		return &Refused{ID: id, Why: fmt.Sprintf("the note has %d bytes, and may have %d", len(text), maxNote), Try: "a link to where there is room for it"}
	}
	if strings.HasPrefix(id, "g-") {
		return o.noteGroup(ctx, id, by, text)
	}
	return o.change(ctx, decision{id: id, action: "note", by: by, why: text}, func(r *dedupe.Record, _ time.Time) (bool, error) {
		if r.Note = ""; text != "" {
			r.Note = note(by, text, "")
		}
		return false, nil
	})
}

func (o *Operations) noteGroup(ctx context.Context, group, by, text string) error {
	c, err := o.Index.Stats(ctx, Filter{Group: group})
	if err != nil {
		return err
	}
	if c.Active+c.Replaying == 0 {
		return fmt.Errorf("%w: group %s has none that is open", ErrNotFound, group)
	}
	now := time.Now()
	before := o.Ledger.Remarks()[group].Text
	var r *dedupe.Remark
	if text != "" {
		r = &dedupe.Remark{At: now, By: by, Text: text}
	}
	return o.remark(ctx, group, r, dedupe.Audit{At: now, Action: "note", Target: "group " + group, By: by, Why: text, Allowed: true, Before: before, After: text})
}

func (o *Operations) remark(ctx context.Context, group string, r *dedupe.Remark, a dedupe.Audit) error {
	receipt, err := o.Ledger.SetRemark(ctx, group, r, a)
	if err == nil {
		o.Publisher.PublishReceipt(nil, receipt)
	}
	return err
}

// forget drops the notes on groups that no open letter needs any more.
func (o *Operations) forget(ctx context.Context) error {
	remarks := o.Ledger.Remarks()
	if len(remarks) == 0 {
		return nil
	}
	entries, err := o.Index.letters(ctx)
	if err != nil {
		return err
	}
	open := openRemarks(entries, remarks)
	for group, r := range remarks {
		if open[group] != "" {
			continue
		}
		if err := o.remark(ctx, group, nil, dedupe.Audit{At: time.Now(), Action: "note", Target: "group " + group, By: "dispatcher",
			Why: "its letters were dealt with", Allowed: true, Before: r.Text}); err != nil {
			return err
		}
	}
	return nil
}
