package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// ErrNotFound is returned for a letter that is not in the stream.
var ErrNotFound = errors.New("no such dead letter")

// Store is the dead-letter stream.
type Store struct {
	js       jetstream.JetStream
	subjects schemas.Subjects
	stream   string

	mu      sync.Mutex // guards created
	created map[string]string
}

// NewStore returns the letters of the named stream.
func NewStore(js jetstream.JetStream, s schemas.Subjects, stream string) *Store {
	return &Store{js: js, subjects: s, stream: stream, created: map[string]string{}}
}

// Publish stores the letter of a settled call and returns once the server has it.
// A letter that is already there counts as stored only if it tells our outcome.
func (s *Store) Publish(ctx context.Context, r *dedupe.Record) error {
	m := message(s.subjects, r)
	_, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(0))
	return s.confirm(ctx, m.Subject, r.Outcome.ID, err)
}

// PublishRefusal stores the letter of a refused message. Its ID says where the
// message was stored, so a redelivery finds its letter there.
func (s *Store) PublishRefusal(ctx context.Context, d dispatcher.Delivery, o *schemas.Outcome, reason string) error {
	created, err := s.streamCreated(ctx, d.Origin.Stream)
	if err != nil {
		return err
	}
	m := refusalMessage(s.subjects, d, o, reason, dedupe.MessageID(created, d.Origin.Stream, d.Origin.Sequence))
	_, err = s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(0))
	return s.confirm(ctx, m.Subject, o.ID, err)
}

func (s *Store) confirm(ctx context.Context, subject, id string, err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != 10071 && api.ErrorCode != 10164 {
		if err != nil {
			return fmt.Errorf("store dead letter: %w", err)
		}
		return nil
	}
	st, err := s.js.Stream(ctx, s.stream)
	if err != nil {
		return fmt.Errorf("look for the dead letter that is there: %w", err)
	}
	there, err := st.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return fmt.Errorf("look for the dead letter that is there: %w", err)
	}
	if l := read(s.subjects, there); l.Outcome == nil || l.Outcome.ID != id {
		return fmt.Errorf("dead letter subject %s already holds another outcome", subject)
	}
	return nil
}

// streamCreated tells one stream of a name from the next: its sequences start again.
func (s *Store) streamCreated(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	at, ok := s.created[name]
	s.mu.Unlock()
	if ok || name == "" {
		return at, nil
	}
	st, err := s.js.Stream(ctx, name)
	if err != nil {
		return "", fmt.Errorf("stream %s: %w", name, err)
	}
	at = st.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created[name] = at
	return at, nil
}

// read understands a stored letter. What is missing stays zero: a letter somebody
// else wrote is shown as far as it goes.
func read(subjects schemas.Subjects, m *jetstream.RawStreamMsg) schemas.Letter {
	h := schemas.Header(m.Header)
	l := schemas.Letter{
		V: schemas.Version, ID: h.Get(schemas.HeaderLetter), State: schemas.LetterActive, Reason: h.Get(schemas.HeaderReason),
		Code: h.Get(schemas.HeaderLastCode), Fingerprint: h.Get(schemas.HeaderFingerprint), Run: h.Get(schemas.HeaderRun), Key: h.Get(schemas.HeaderKey), Replay: h.Get(schemas.HeaderReplay),
		FirstSeen: when(h, schemas.HeaderFirstSeen), DiedAt: when(h, schemas.HeaderDiedAt), Deadline: when(h, schemas.HeaderDeadline),
		Sequence: m.Sequence, Truncated: h.Get(headerTruncated) != "", BodyLost: h.Get(headerBodyLost) != "", Arguments: string(m.Data),
		Origin: schemas.Origin{Stream: h.Get(schemas.HeaderOriginStream), Subject: h.Get(schemas.HeaderOriginSubject), Time: when(h, schemas.HeaderFirstSeen)},
	}
	l.Origin.Sequence, _ = strconv.ParseUint(h.Get(schemas.HeaderOriginSequence), 10, 64)
	l.Attempts, _ = strconv.Atoi(h.Get(schemas.HeaderAttempt))
	if at, err := subjects.ParseLetter(m.Subject); err == nil {
		l.Tenant, l.Tool, l.Call, l.Generation = at.Tenant, at.Tool, at.Call, at.Generation
		l.ID = dedupe.LetterID(at.Call, at.Generation)
		l.Reason = at.Reason
	}
	l.Header, _ = h.Agent()
	delete(l.Header, headerTruncated)
	delete(l.Header, headerBodyLost)
	var o schemas.Outcome
	if json.Unmarshal([]byte(h.Get(schemas.HeaderOutcome)), &o) == nil && o.V != 0 {
		l.Outcome, l.Lane = &o, o.Lane
		if at := o.Timing.Deadline; !at.IsZero() {
			l.Deadline = at // the one that held; the header's may lie beyond the policy's window
		}
		if o.Error != nil {
			l.Message, l.Class = o.Error.Message, o.Error.Class
		}
	}
	l.NextStep = NextStep(l.Reason, l.Code)
	return l
}

func when(h schemas.Header, name string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, h.Get(name))
	return t
}

// Get reads one letter, whole. A tool's name has up to eight segments, so up to
// eight subjects are asked for, the shortest first.
func (s *Store) Get(ctx context.Context, call string, generation int) (schemas.Letter, error) {
	st, err := s.js.Stream(ctx, s.stream)
	if err != nil {
		return schemas.Letter{}, err
	}
	tool := "*"
	for range 8 {
		m, err := st.GetLastMsgForSubject(ctx, s.subjects.Letter("*", "*", tool, call, generation))
		if err == nil {
			return read(s.subjects, m), nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return schemas.Letter{}, err
		}
		tool += ".*"
	}
	return schemas.Letter{}, fmt.Errorf("%w: %s", ErrNotFound, dedupe.LetterID(call, generation))
}
