package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// sweepReach is how late a retry may be before its loss would have been noticed:
// the consumer looks for overdue ones every few seconds and wakes each once a minute.
const sweepReach = 90 * time.Second

// last reads the newest message of a subject; nil: there is none.
func last(ctx context.Context, st jetstream.Stream, subject string) (*jetstream.RawStreamMsg, error) {
	m, err := st.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", subject, err)
	}
	return m, nil
}

// told is what a stored outcome is compared by.
type told struct {
	ID         string `json:"id"`
	Generation int    `json:"generation"`
}

func resultStored(ctx context.Context, v *verifier, r *dedupe.Record) (string, error) {
	if v.expired(r.Settled) {
		return "", nil
	}
	fault, err := v.resultIs(ctx, r)
	if err != nil || fault == "" || v.owesResult(r.Call) {
		return "", err
	}
	// What is not owed by now has been stored, so that a second look must find it.
	return v.resultIs(ctx, r)
}

func (v *verifier) resultIs(ctx context.Context, r *dedupe.Record) (fault string, err error) {
	m, err := last(ctx, v.results, v.Subjects.Result(r.Tenant, r.Root, r.Call))
	if err != nil {
		return "", err
	}
	if m == nil {
		return fmt.Sprintf("call %s ended %s, and the results stream has nothing of it", r.Call, r.Outcome.Status), nil
	}
	var o told
	if err := json.Unmarshal(m.Data, &o); err != nil {
		return fmt.Sprintf("the stored result of call %s cannot be read: %v", r.Call, err), nil
	}
	if o.ID == r.Outcome.ID || o.Generation > r.Generation {
		return "", nil
	}
	return fmt.Sprintf("call %s ended with outcome %s, and the results stream holds %s", r.Call, r.Outcome.ID, o.ID), nil
}

func (v *verifier) owesResult(call string) bool {
	_, results, _ := v.Ledger.Owed()
	return slices.ContainsFunc(results, func(r *dedupe.Record) bool { return r.Call == call })
}

func letterStored(ctx context.Context, v *verifier, r *dedupe.Record) (string, error) {
	if r.Letter == schemas.LetterPurged || r.Letter != schemas.LetterActive && v.expired(r.Settled) {
		return "", nil // it was dealt with, and goes at the age at which results go, or at once
	}
	m, err := last(ctx, v.letters, v.Subjects.Letter(r.Tenant, r.LetterReason, r.Tool, r.Call, r.Generation))
	if err != nil {
		return "", err
	}
	if m == nil {
		return fmt.Sprintf("dead letter %s (%s, %s) is not in its stream", r.LetterID(), r.LetterReason, r.Tool), nil
	}
	var o told
	if err := json.Unmarshal([]byte(m.Header.Get(schemas.HeaderOutcome)), &o); err != nil || o.ID != r.Outcome.ID {
		return fmt.Sprintf("dead letter %s tells outcome %q, and the ledger recorded %q", r.LetterID(), o.ID, r.Outcome.ID), nil
	}
	return "", nil
}

func carrierStored(ctx context.Context, v *verifier, r *dedupe.Record) (string, error) {
	for _, subject := range []string{v.Subjects.Retry(r.Lane, r.Tenant, r.Call, r.Tool), v.Subjects.Schedule(r.Lane, r.Tenant, r.Call)} {
		m, err := last(ctx, v.retry, subject)
		if err != nil {
			return "", err
		}
		if m != nil && token(m) == r.Token {
			return "", nil
		}
	}
	if late := time.Since(r.Due); late > 0 && late < sweepReach {
		return "", nil // fired and lost: the sweep wakes it
	}
	return fmt.Sprintf("call %s waits for %s with token %d, and neither a schedule nor a retry is stored", r.Call, r.Due.UTC().Format(time.RFC3339), r.Token), nil
}

func token(m *jetstream.RawStreamMsg) uint64 {
	t, _ := strconv.ParseUint(m.Header.Get(schemas.HeaderToken), 10, 64)
	return t
}
