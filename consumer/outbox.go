package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// Owing is the ledger as the outbox needs it.
type Owing interface {
	Published(dedupe.Publication)
	Owed() (slots, results []*dedupe.Record, audits []dedupe.Audit)
	Record(call string) (*dedupe.Record, error)
	Read() uint64 // rises when Owed may hold what nobody was told to publish
}

// Letters stores dead letters. Both return once the server has the letter.
type Letters interface {
	Publish(ctx context.Context, r *dedupe.Record) error
	PublishRefusal(ctx context.Context, d dispatcher.Delivery, o *schemas.Outcome, reason string) error
}

// Outbox publishes what commits owe. It implements [dispatcher.Publisher]. Results
// and audit entries go out in the background; whatever fails is tried again, and
// the ledger hands everything unpublished out once more at the next start.
type Outbox struct {
	js       jetstream.JetStream
	subjects schemas.Subjects
	letters  Letters
	ledger   Owing
	log      zerolog.Logger
	post     *poster

	mu     sync.Mutex                // guards failed
	failed map[string]*dedupe.Record // slots to try again
}

// publishTimeout bounds one publish; the server's own is unbounded while it is away.
const publishTimeout = 5 * time.Second

// NewOutbox returns an outbox. Nothing goes out before Run.
func NewOutbox(js jetstream.JetStream, s schemas.Subjects, l Owing, letters Letters, log zerolog.Logger) (*Outbox, error) {
	p, err := newPoster(js.Conn(), l, log)
	return &Outbox{js: js, subjects: s, letters: letters, ledger: l, log: log, post: p, failed: map[string]*dedupe.Record{}}, err
}

// Slot publishes a record's schedule, wake, letter or edited call.
func (o *Outbox) Slot(ctx context.Context, r *dedupe.Record) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	var err error
	switch r.Slot {
	case dedupe.SlotLetter:
		err = o.letters.Publish(ctx, r)
	case dedupe.SlotSchedule:
		_, err = o.js.PublishMsg(ctx, scheduleMessage(o.subjects, r))
	case dedupe.SlotWake:
		_, err = o.js.PublishMsg(ctx, retryMessage(o.subjects, r))
	case dedupe.SlotEdit:
		_, err = o.js.PublishMsg(ctx, editedMessage(o.subjects, r))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.failed[r.Call] = r
	} else {
		delete(o.failed, r.Call)
	}
	return err
}

// Wake publishes a waiting call straight to its retry subject, unless a message is
// there already. It is the sweep's answer to a schedule that never fired.
func (o *Outbox) Wake(ctx context.Context, r *dedupe.Record) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	_, err := o.js.PublishMsg(ctx, retryMessage(o.subjects, r), jetstream.WithExpectLastSequencePerSubject(0))
	if isConflict(err) {
		return nil
	}
	return err
}

// isConflict reports whether an expected-sequence publish met another message.
func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == 10071 || api.ErrorCode == 10164)
}

// Result queues an outcome.
func (o *Outbox) Result(number uint64, root string, out *schemas.Outcome) {
	o.result(number, root, out, number == 0)
}

// result queues an outcome; one that may be old is looked up before it goes out.
func (o *Outbox) result(number uint64, root string, out *schemas.Outcome, old bool) {
	o.post.queue(posting{subject: o.subjects.Result(out.Tenant, root, out.Call), body: encodeOutcome(out), call: out.Call, outcome: out.ID,
		old: old, note: dedupe.Publication{Result: number}})
}

// Audit queues operator decisions.
func (o *Outbox) Audit(entries []dedupe.Audit) {
	for _, e := range entries {
		tenant := e.Tenant
		if tenant == "" {
			tenant = "_all"
		}
		id := strconv.FormatUint(e.Number, 10) + "." + strconv.FormatInt(e.At.UnixNano(), 36) // a ledger that was lost begins with number 1 again
		o.post.queue(posting{subject: o.subjects.Audit(tenant, e.Action), body: encode(e), id: id, note: dedupe.Publication{Audit: e.Number}})
	}
}

// Refused stores the letter of a refused message, if it leaves one, and then gives
// the refusal to whoever listens, once: nobody stores it.
func (o *Outbox) Refused(ctx context.Context, d dispatcher.Delivery, out *schemas.Outcome, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if reason != "" {
		if err := o.letters.PublishRefusal(ctx, d, out, reason); err != nil {
			return err
		}
	}
	if d.Endpoint || out.Call == "" || !schemas.ValidTenant(out.Tenant) {
		return nil
	}
	_, err := o.js.Publish(ctx, o.subjects.Refused(out.Tenant, schemas.Root(out.Run), out.Call), encode(out))
	return err
}

// Run publishes until ctx ends and what is queued is out, or flush ends.
func (o *Outbox) Run(ctx, flush context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { o.post.run(ctx, flush) })
	wg.Go(func() { o.retry(ctx) })
	wg.Wait()
}

// retry tries failed slots again, and looks into the ledger when the queue overran or
// the ledger has read its file again.
func (o *Outbox) retry(ctx context.Context) {
	known := o.ledger.Read()
	for ctx.Err() == nil {
		sleep(ctx, time.Second)
		read := o.ledger.Read()
		o.mu.Lock()
		var again []*dedupe.Record
		for _, r := range o.failed {
			again = append(again, r)
		}
		o.mu.Unlock()
		var failed error // one line for each round
		for _, r := range again {
			if err := o.again(ctx, r); err != nil && failed == nil {
				failed = fmt.Errorf("%s of call %s: %w", r.Slot, r.Call, err)
			}
		}
		if failed != nil && ctx.Err() == nil {
			o.log.Warn().Err(failed).Int("tried", len(again)).Msg("what records owe is still not stored; it is tried again every second")
		}
		if o.post.overran() || read != known {
			o.Owed(ctx)
		}
		known = read
	}
}

// again publishes a slot that failed, if it is still what the record owes: an old
// schedule must never replace a newer one.
func (o *Outbox) again(ctx context.Context, r *dedupe.Record) error {
	now, err := o.ledger.Record(r.Call)
	if err == nil && now.Slot == r.Slot && now.Token == r.Token && now.Generation == r.Generation {
		if err := o.Slot(ctx, now); err != nil {
			return err
		}
		o.ledger.Published(dedupe.Publication{Call: r.Call, Token: r.Token, Generation: r.Generation, Slot: r.Slot})
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failed, r.Call)
	return nil
}

// Owed publishes everything the ledger says is unpublished: after a start, and
// after the queue overran. One that fails blocks nothing else.
func (o *Outbox) Owed(ctx context.Context) {
	slots, results, audits := o.ledger.Owed()
	for _, r := range results {
		if !o.post.has(dedupe.Publication{Result: r.Result}) {
			o.result(r.Result, r.Root, r.Outcome, true)
		}
	}
	o.Audit(audits)
	for _, r := range slots {
		if ctx.Err() != nil {
			return
		}
		if err := o.again(ctx, r); err != nil { // retry says why, every second
			o.log.Debug().Err(err).Str("call", r.Call).Msg("not stored yet")
		}
	}
}

func encodeOutcome(o *schemas.Outcome) []byte {
	b, err := o.Encode()
	if err != nil {
		panic("consumer: " + err.Error())
	}
	return b
}

// encode marshals a value that always can be.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("consumer: " + err.Error())
	}
	return b
}

// scheduleMessage arms a retry: the original message with raised headers.
func scheduleMessage(s schemas.Subjects, r *dedupe.Record) *nats.Msg {
	m := retryMessage(s, r)
	m.Header["Nats-Schedule"] = []string{"@at " + r.Due.UTC().Format(time.RFC3339Nano)} // the client's own option truncates to seconds
	m.Header["Nats-Schedule-Target"] = []string{m.Subject}
	m.Subject = s.Schedule(r.Lane, r.Tenant, r.Call)
	return m
}

// retryMessage is a waiting call's carrier. Received Nats-* headers never get in:
// the record holds the agent's headers only.
func retryMessage(s schemas.Subjects, r *dedupe.Record) *nats.Msg {
	h := r.Request.Header.Clone()
	h.Set(schemas.HeaderCall, r.Call)
	h.Set(schemas.HeaderAttempt, strconv.Itoa(r.Tries+1))
	h.Set(schemas.HeaderGeneration, strconv.Itoa(r.Generation))
	h.Set(schemas.HeaderToken, strconv.FormatUint(r.Token, 10))
	h.Set(schemas.HeaderSpentAttempts, strconv.FormatInt(r.Spent.Attempts, 10))
	h.Set(schemas.HeaderSpentSideEffects, strconv.FormatInt(r.Spent.SideEffects, 10))
	if r.OwesToken {
		h.Set(schemas.HeaderOwes, "1")
	}
	if n := len(r.Attempts); n > 0 {
		h.Set(schemas.HeaderLastCode, r.Attempts[n-1].Code)
	}
	return &nats.Msg{Subject: s.Retry(r.Lane, r.Tenant, r.Call, r.Tool), Header: nats.Header(h), Data: r.Request.Body}
}

// editedMessage is the call that an operator has made of a letter, on its way in like
// any agent's. Published twice it is one call: its key names it, and so does its ID for
// as long as the stream remembers that.
func editedMessage(s schemas.Subjects, r *dedupe.Record) *nats.Msg {
	h := r.Request.Header.Clone()
	h.Set(schemas.HeaderMessageID, r.EditedTo)
	return &nats.Msg{Subject: s.Submit(r.Lane, r.Tenant, r.Tool), Header: nats.Header(h), Data: r.Request.Body}
}
