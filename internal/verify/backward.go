package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// storedLetters goes the other way: every letter of a call has a record at least as
// new. A letter outlives its record only once it is settled and the record expired.
func (v *verifier) storedLetters(ctx context.Context) error {
	c := v.check("I10", "every dead letter belongs to a call that died in that generation, or was replayed since")
	return v.subjects(ctx, v.letters, v.Subjects.Prefix+".dlq.>", func(subject string) error {
		at, err := v.Subjects.ParseLetter(subject)
		if err != nil || at.Reason == schemas.ReasonMalformed || at.Reason == schemas.ReasonRejected {
			return nil // not ours, or of a message that was no call
		}
		look := func(ctx context.Context) (string, string, error) { return v.letterOwned(ctx, subject, at) }
		_, fault, err := look(ctx)
		v.looked(c, fault, look)
		return err
	})
}

func (v *verifier) letterOwned(ctx context.Context, subject string, at schemas.LetterSubject) (version, fault string, err error) {
	id := dedupe.LetterID(at.Call, at.Generation)
	r, err := v.Ledger.Record(at.Call)
	switch {
	case errors.Is(err, dedupe.ErrNotFound):
		m, err := last(ctx, v.letters, subject)
		if err != nil || m == nil || v.expired(m.Time) {
			return "", "", err
		}
		return subject, fmt.Sprintf("dead letter %s (%s, %s) has no call in the ledger", id, at.Reason, at.Tool), nil
	case err != nil:
		return "", "", err
	case r.Generation < at.Generation || r.Generation == at.Generation && !r.State.Terminal():
		return versionOf(r), fmt.Sprintf("dead letter %s is ahead of its call, which is %s in generation %d", id, r.State, r.Generation), nil
	}
	return "", "", nil
}

// carriers goes the other way for retries: each belongs to a call the ledger knows,
// and none is newer than its record. An older one is stale and will only be acked.
func (v *verifier) carriers(ctx context.Context) error {
	c := v.check("I12", "every armed and fired retry belongs to a call that waits for it, or is stale")
	return v.subjects(ctx, v.retry, ">", func(subject string) error {
		look := func(ctx context.Context) (string, string, error) { return v.carrierOwned(ctx, subject) }
		_, fault, err := look(ctx)
		v.looked(c, fault, look)
		return err
	})
}

func (v *verifier) carrierOwned(ctx context.Context, subject string) (version, fault string, err error) {
	m, err := last(ctx, v.retry, subject)
	if err != nil || m == nil {
		return "", "", err
	}
	rest := strings.Split(strings.TrimPrefix(subject, v.Subjects.Prefix+"."), ".") // sched or retry, lane, tenant, call
	if len(rest) < 4 {
		return subject, fmt.Sprintf("a message on %s belongs to no call", subject), nil
	}
	r, err := v.Ledger.Record(rest[3])
	switch {
	case errors.Is(err, dedupe.ErrNotFound) && v.expired(m.Time):
		return "", "", nil // stale, and its call is forgotten
	case errors.Is(err, dedupe.ErrNotFound):
		return subject, fmt.Sprintf("the retry on %s has no call in the ledger", subject), nil
	case err != nil:
		return "", "", err
	case token(m) > r.Token:
		return versionOf(r), fmt.Sprintf("the retry of call %s has token %d, and the ledger is at %d: the ledger is older than the streams", r.Call, token(m), r.Token), nil
	}
	return "", "", nil
}

// subjects gives every subject of a stream to f.
func (v *verifier) subjects(ctx context.Context, st jetstream.Stream, filter string, f func(subject string) error) error {
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return fmt.Errorf("list %s: %w", filter, err)
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		if err := f(subject); err != nil {
			return err
		}
	}
	return nil
}
