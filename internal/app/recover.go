package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"tollgate/budget"
	"tollgate/consumer"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// setAside moves a damaged ledger out of the way, so that recovery starts from the
// streams; it is kept for whoever can read more out of it.
func setAside(path string) (string, error) {
	aside := path + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("set the damaged ledger aside: %w", err)
	}
	return aside, nil
}

// openRecovering opens the file, or a new one in the place of a damaged one.
func (a *App) openRecovering(path string, o bolt.Options) (*bolt.Ledger, error) {
	l, err := bolt.Open(path, o)
	if !a.opts.Recover || !errors.Is(err, bolt.ErrDamaged) {
		return l, err
	}
	aside, err := setAside(path)
	if err != nil {
		return nil, err
	}
	a.opts.Log.Warn().Str("kept", aside).Msg("recover: the ledger file is damaged; starting from the streams")
	return bolt.Open(path, o)
}

// recovered is what the streams still say of one call: its newest outcome.
type recovered struct {
	root    string
	outcome schemas.Outcome
	letter  *schemas.Letter
}

// payer names the run that the call was charged to.
func (c *recovered) payer() string { return c.outcome.Tenant + "/" + schemas.Root(c.outcome.Run) }

// importStreams fills a recovered ledger with what the results and the dead letters
// still say, before anything is consumed: outcomes, letters, and what each run had
// spent at least. Calls that were under way are not in there; for tools that must
// not repeat them the ledger's horizon makes them unknown outcomes.
func (a *App) importStreams(ctx context.Context) error {
	if err := consumer.Ensure(ctx, a.js, consumer.Streams(a.subjects, a.limits())); err != nil {
		return err
	}
	calls := map[string]*recovered{}
	if err := a.eachStored(ctx, a.names.Results, func(subject string, body []byte) {
		var o schemas.Outcome
		parts := strings.Split(strings.TrimPrefix(subject, a.subjects.Prefix+".results."), ".")
		if len(parts) == 3 && json.Unmarshal(body, &o) == nil && o.Call == parts[2] {
			calls[o.Call] = &recovered{root: parts[1], outcome: o}
		}
	}); err != nil {
		return err
	}
	store := deadletter.NewStore(a.js, a.subjects, a.names.Letters)
	if err := store.Each(ctx, func(l schemas.Letter) {
		if l.Outcome == nil || l.Outcome.Status == schemas.Rejected {
			return
		}
		c, ok := calls[l.Call]
		if !ok {
			c = &recovered{root: schemas.Root(l.Outcome.Run), outcome: *l.Outcome}
			calls[l.Call] = c
		}
		if l.Generation >= c.outcome.Generation {
			c.outcome, c.letter = *l.Outcome, &l
		}
	}); err != nil {
		return err
	}
	began := map[string]time.Time{} // by run; its deadline counts from there
	for _, c := range calls {
		if at := began[c.payer()]; at.IsZero() || c.outcome.Timing.Published.Before(at) {
			began[c.payer()] = c.outcome.Timing.Published
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(256) // they share commits
	for _, c := range calls {
		g.Go(func() error { return a.adopt(ctx, c, began[c.payer()]) })
	}
	err := g.Wait()
	a.opts.Log.Warn().Int("calls", len(calls)).Msg("recover: outcomes and letters imported from the streams")
	return err
}

// adopt stores one recovered call, unless the ledger knows as much or more. Its run, if
// nobody knows it, began when the first of its calls that are left was published.
func (a *App) adopt(ctx context.Context, c *recovered, began time.Time) error {
	r := a.record(c)
	_, err := a.ledger.Update(ctx, r.Ref(), func(v dedupe.View) dedupe.Change {
		if old := v.Record; old != nil && (old.Generation > r.Generation || old.Generation == r.Generation && old.State.Terminal()) {
			return dedupe.Change{}
		} else if old != nil {
			r.Token, r.Fence = old.Token+1, old.Fence+1
			return dedupe.Change{Record: r}
		}
		run := v.Run
		if run == nil {
			run = budget.New(r.Tenant, schemas.Root(r.Run), began)
		}
		if run.Open(r.Run, budget.Named{}, r.Terms.Run, r.Published) == nil {
			for _, at := range r.Attempts {
				run.Spend(r.Run, r.Terms.Write() && at.Phase != "not_sent" && !at.Reconcile)
			}
		}
		if r.Settled.After(run.Used) {
			run.Used = r.Settled
		}
		return dedupe.Change{Record: r, Run: run}
	})
	return err
}

// record rebuilds a terminal record. Its terms are those of today's catalogue: the
// ones it was admitted with are lost.
func (a *App) record(c *recovered) *dedupe.Record {
	o := &c.outcome
	r := &dedupe.Record{
		Call: o.Call, Tenant: o.Tenant, Lane: o.Lane, Root: c.root, Run: o.Run, Tool: o.Tool, Key: o.Key, DownstreamKey: o.Call,
		Fingerprint: o.Fingerprint, ToolCallID: o.ToolCallID, State: dedupe.Done, Generation: o.Generation, Attempts: o.Attempts,
		Published: o.Timing.Published, Deadline: o.Timing.Deadline, Settled: o.Timing.Settled, Outcome: o, Tries: len(o.Attempts),
		Ambiguous: o.NextAction == schemas.Reconcile, Released: o.Status == schemas.Unavailable,
	}
	if len(o.Attempts) > 0 {
		r.FirstAttempt = o.Attempts[0].Started
	}
	if o.Status == schemas.Cancelled {
		r.State = dedupe.Cancelled
	}
	if c.letter != nil {
		r.State, r.Letter, r.LetterReason, r.Origin = dedupe.Dead, schemas.LetterActive, c.letter.Reason, c.letter.Origin
	}
	if t, ok := a.catalogue.Tool(o.Tool); ok {
		if t.AgentKey {
			r.DownstreamKey = o.Key
		}
		lane := o.Lane
		if names := t.Policies[lane]; len(names) > 0 {
			p, _ := a.catalogue.Policy(names[0])
			r.Terms = dispatcher.Terms(t, p, r.Deadline.Sub(r.Published))
		}
	}
	return r
}

// eachStored reads a stream from its beginning to its present end.
func (a *App) eachStored(ctx context.Context, stream string, do func(subject string, body []byte)) error {
	st, err := a.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	last := st.CachedInfo().State.LastSeq
	if st.CachedInfo().State.Msgs == 0 {
		return nil
	}
	c, err := a.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	for seq := uint64(0); seq < last; {
		batch, err := c.FetchNoWait(500)
		if err != nil {
			return err
		}
		read := false
		for m := range batch.Messages() {
			if meta, err := m.Metadata(); err == nil {
				seq = meta.Sequence.Stream
			}
			do(m.Subject(), m.Data())
			read = true
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if !read {
			return nil
		}
	}
	return ctx.Err()
}
