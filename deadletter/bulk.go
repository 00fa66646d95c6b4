package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// allowed says what stands in the way of a replay before the ledger is asked.
func (o *Operations) allowed(l schemas.Letter, opt ReplayOptions) error {
	switch {
	case l.Reason == schemas.ReasonMalformed || l.Reason == schemas.ReasonRejected:
		return &Refused{ID: l.ID, Why: "the message was refused and is no call", Try: "fix the publisher and discard the letter"}
	case !o.Served(l.Tool):
		return &Refused{ID: l.ID, Why: fmt.Sprintf("no tool %s is served", l.Tool), Try: "add it to the catalogue first"}
	case opt.NewRun != "" && !schemas.ValidRun(opt.NewRun):
		return &Refused{ID: l.ID, Why: fmt.Sprintf("%q is not a run path", opt.NewRun)}
	}
	return nil
}

// Runs is the ledger as far as a check needs runs.
type Runs interface {
	Run(tenant, root string) (*budget.Run, error)
}

// Check says whether a letter of a list could be replayed now, and whether its effect
// may have happened already. It commits nothing and does not read the letter: what is
// wrong with its bytes only the replay itself finds out.
func (o *Operations) Check(l schemas.Letter, runs Runs, opt ReplayOptions) (uncertain bool, err error) {
	if err := o.allowed(l, opt); err != nil {
		return false, err
	}
	var v dedupe.View
	r, err := o.Ledger.Record(l.Call)
	if err == nil {
		v.Record = r
		v.Run, err = runs.Run(r.Tenant, schemas.Root(r.Run))
	}
	if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
		return false, err
	}
	l.Outcome = nil
	err = replayable(v, l, opt, time.Now())
	return r != nil && r.Ambiguous, err
}

// Reader reads whole letters by where they are stored: a bulk replay reads thousands,
// and looks at the stream once.
type Reader struct {
	store  *Store
	stream jetstream.Stream
}

// Reader returns a reader of the letters.
func (s *Store) Reader(ctx context.Context) (*Reader, error) {
	st, err := s.js.Stream(ctx, s.stream)
	if err != nil {
		return nil, fmt.Errorf("dead-letter stream: %w", err)
	}
	return &Reader{store: s, stream: st}, nil
}

// letter reads one letter. What another stream of the name has at its place counts for
// nothing: then it is looked for by its name.
func (r *Reader) letter(ctx context.Context, call string, generation int, sequence uint64) (schemas.Letter, error) {
	if sequence > 0 {
		m, err := r.stream.GetMsg(ctx, sequence)
		switch {
		case err == nil:
			if l := read(r.store.subjects, m); l.Call == call && l.Generation == generation {
				return l, nil
			}
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return schemas.Letter{}, err
		}
	}
	return r.store.Get(ctx, call, generation)
}

// ReplayItem replays one letter of a bulk replay. That the letter's next generation is
// this replay's doing is noted in the commit that opens it, so that a replay which is
// cut off anywhere knows afterwards what it has done.
func (o *Operations) ReplayItem(ctx context.Context, from *Reader, opt ReplayOptions, mark dedupe.ReplayMark) error {
	call, generation, err := dedupe.ParseLetterID(mark.Item.Letter)
	if err != nil {
		return err
	}
	l, err := from.letter(ctx, call, generation, mark.Item.Sequence)
	if err != nil {
		return err
	}
	return o.replay(ctx, l, opt, &mark)
}
