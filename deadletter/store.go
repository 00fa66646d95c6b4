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

	index *Index // set once; nil: letters are looked for in the stream

	mu      sync.Mutex // guards the rest
	created map[string]string
	letters jetstream.Stream // a handle, once somebody has asked for it
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
	st, err := s.handle(ctx)
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

// handle is the stream to get single letters from. It is asked for once: a stream that
// is made again answers to the same name.
func (s *Store) handle(ctx context.Context) (jetstream.Stream, error) {
	s.mu.Lock()
	st := s.letters
	s.mu.Unlock()
	if st != nil {
		return st, nil
	}
	st, err := s.js.Stream(ctx, s.stream)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letters = st
	return st, nil
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
	l := readHeader(subjects, m)
	h := schemas.Header(m.Header)
	l.Header, _ = h.Agent()
	delete(l.Header, headerTruncated)
	delete(l.Header, headerBodyLost)
	l.Arguments = string(m.Data)
	var o schemas.Outcome
	if json.Unmarshal([]byte(h.Get(schemas.HeaderOutcome)), &o) == nil && o.V != 0 {
		l.Outcome = &o
	}
	return l
}

// brief is what the index needs of a letter: everything but the arguments, the
// agent's headers and the outcome.
func (s *Store) brief(m *jetstream.RawStreamMsg) schemas.Letter { return readHeader(s.subjects, m) }

func readHeader(subjects schemas.Subjects, m *jetstream.RawStreamMsg) schemas.Letter {
	h := schemas.Header(m.Header)
	l := schemas.Letter{
		V: schemas.Version, ID: h.Get(schemas.HeaderLetter), State: schemas.LetterActive, Reason: h.Get(schemas.HeaderReason),
		Code: h.Get(schemas.HeaderLastCode), Fingerprint: h.Get(schemas.HeaderFingerprint), Run: h.Get(schemas.HeaderRun), Key: h.Get(schemas.HeaderKey), Replay: h.Get(schemas.HeaderReplay),
		FirstSeen: when(h, schemas.HeaderFirstSeen), DiedAt: when(h, schemas.HeaderDiedAt), Deadline: when(h, schemas.HeaderDeadline),
		Sequence: m.Sequence, Truncated: h.Get(headerTruncated) != "", BodyLost: h.Get(headerBodyLost) != "",
		Origin: schemas.Origin{Stream: h.Get(schemas.HeaderOriginStream), Subject: h.Get(schemas.HeaderOriginSubject), Time: when(h, schemas.HeaderFirstSeen)},
	}
	l.Origin.Sequence, _ = strconv.ParseUint(h.Get(schemas.HeaderOriginSequence), 10, 64)
	l.Attempts, _ = strconv.Atoi(h.Get(schemas.HeaderAttempt))
	if at, err := subjects.ParseLetter(m.Subject); err == nil {
		l.Tenant, l.Tool, l.Call, l.Generation = at.Tenant, at.Tool, at.Call, at.Generation
		l.ID = dedupe.LetterID(at.Call, at.Generation)
		l.Reason = at.Reason
	}
	if o, ok := readBrief(h.Get(schemas.HeaderOutcome)); ok {
		l.Lane = o.Lane
		l.Class, l.Message = cause(o.Error)
		if at := o.Timing.Deadline; !at.IsZero() {
			l.Deadline = at // the one that held; the header's may lie beyond the policy's window
		}
	}
	l.NextStep = NextStep(l.Reason, l.Code)
	return l
}

func when(h schemas.Header, name string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, h.Get(name))
	return t
}

// Get reads one letter, whole.
func (s *Store) Get(ctx context.Context, call string, generation int) (schemas.Letter, error) {
	m, err := s.raw(ctx, call, generation)
	if err != nil {
		return schemas.Letter{}, err
	}
	return read(s.subjects, m), nil
}

// raw reads one letter as it is stored. Where the index does not know its place, up
// to eight subjects are asked for, the shortest first: a tool's name has up to eight
// segments.
func (s *Store) raw(ctx context.Context, call string, generation int) (*jetstream.RawStreamMsg, error) {
	st, err := s.handle(ctx)
	if err != nil {
		return nil, err
	}
	if m := s.hinted(ctx, st, call, generation); m != nil {
		return m, nil
	}
	tool := "*"
	for range 8 {
		m, err := st.GetLastMsgForSubject(ctx, s.subjects.Letter("*", "*", tool, call, generation))
		if err == nil {
			return m, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, err
		}
		tool += ".*"
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, dedupe.LetterID(call, generation))
}

// hinted looks where the index has seen the letter, which among many is much faster.
// A hint may be old: what is found must be the letter.
func (s *Store) hinted(ctx context.Context, st jetstream.Stream, call string, generation int) *jetstream.RawStreamMsg {
	if s.index == nil {
		return nil
	}
	seq := s.index.sequence(call, generation)
	if seq == 0 {
		return nil
	}
	m, err := st.GetMsg(ctx, seq)
	if err != nil {
		return nil
	}
	if at, err := s.subjects.ParseLetter(m.Subject); err != nil || at.Call != call || at.Generation != generation {
		return nil
	}
	return m
}

// Each calls do with every letter there is, oldest first, without its body. Their
// states are the ledger's to tell.
func (s *Store) Each(ctx context.Context, do func(schemas.Letter)) error {
	st, err := s.js.Stream(ctx, s.stream)
	if err != nil {
		return err
	}
	if st.CachedInfo().State.Msgs == 0 {
		return nil
	}
	return s.each(ctx, 1, st.CachedInfo().State.LastSeq, func(m *jetstream.RawStreamMsg) { do(read(s.subjects, m)) })
}

// each calls do with every letter between two sequences, without its body. It reads
// with one consumer: an ordered one would be made again for every batch.
func (s *Store) each(ctx context.Context, first, last uint64, do func(*jetstream.RawStreamMsg)) error {
	c, err := s.js.CreateConsumer(ctx, s.stream, jetstream.ConsumerConfig{
		HeadersOnly: true, AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute})
	if err != nil {
		return err
	}
	defer func() { // one that is left ends by itself
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = s.js.DeleteConsumer(ctx, s.stream, c.CachedInfo().Name)
	}()
	next := uint64(1)
	for seq := first - 1; seq < last; {
		batch, err := c.FetchNoWait(500) // everything up to last is there: waiting for a full batch only costs time
		if err != nil {
			return err
		}
		read := 0
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			if meta.Sequence.Consumer != next {
				return fmt.Errorf("%d dead letters were lost on their way; look again", meta.Sequence.Consumer-next)
			}
			next++
			read++
			if seq = meta.Sequence.Stream; seq <= last {
				do(&jetstream.RawStreamMsg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data(), Sequence: seq})
			}
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if read == 0 {
			break
		}
	}
	return ctx.Err()
}

// Room is how many bytes the letters take, and may take.
type Room struct {
	Bytes    uint64
	MaxBytes int64
}

// Room asks the server.
func (s *Store) Room(ctx context.Context) (Room, error) {
	st, err := s.js.Stream(ctx, s.stream)
	if err != nil {
		return Room{}, err
	}
	info := st.CachedInfo()
	return Room{info.State.Bytes, info.Config.MaxBytes}, nil
}
