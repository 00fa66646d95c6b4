package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Filter narrows letters. Zero fields match everything, except State, which
// defaults to active.
type Filter struct {
	Tenant string    `json:"tenant,omitempty"`
	Tool   string    `json:"tool,omitempty"` // glob
	Reason string    `json:"reason,omitempty"`
	Code   string    `json:"code,omitempty"`
	Run    string    `json:"run,omitempty"` // the path and everything below it
	Call   string    `json:"call,omitempty"`
	Key    string    `json:"key,omitempty"`
	Group  string    `json:"group,omitempty"`  // error fingerprint
	Error  string    `json:"error,omitempty"`  // substring, without regard to case
	Replay string    `json:"replay,omitempty"` // letters that died again in this bulk replay
	State  string    `json:"state,omitempty"`  // active, replaying, resolved, discarded, all
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Limit  int       `json:"limit,omitempty"`  // 0: 50
	Before uint64    `json:"before,omitempty"` // sequence: only older letters
}

// Check reports a filter that cannot match anything because of a mistake.
func (f Filter) Check() error {
	var problems []error
	if _, err := path.Match(f.Tool, ""); err != nil {
		problems = append(problems, fmt.Errorf("tool %q is not a glob: %w", f.Tool, err))
	}
	if f.Reason != "" && !slices.Contains(schemas.Reasons, f.Reason) {
		problems = append(problems, fmt.Errorf("reason %q is unknown; the reasons are %s", f.Reason, strings.Join(schemas.Reasons, ", ")))
	}
	states := []string{"", "all", string(schemas.LetterActive), string(schemas.LetterReplaying), string(schemas.LetterResolved), string(schemas.LetterDiscarded)}
	if !slices.Contains(states, f.State) {
		problems = append(problems, fmt.Errorf("state %q is unknown; the states are %s", f.State, strings.Join(states[1:], ", ")))
	}
	return errors.Join(problems...)
}

func (f Filter) match(l *schemas.Letter) bool {
	tool, _ := path.Match(f.Tool, l.Tool)
	state := f.State
	if state == "" {
		state = string(schemas.LetterActive)
	}
	return (f.Tool == "" || tool) && (state == "all" || state == string(l.State)) &&
		(f.Tenant == "" || f.Tenant == l.Tenant) && (f.Reason == "" || f.Reason == l.Reason) && (f.Code == "" || f.Code == l.Code) &&
		(f.Run == "" || f.Run == l.Run || strings.HasPrefix(l.Run, f.Run+"/")) && (f.Call == "" || strings.HasPrefix(l.Call, f.Call)) &&
		(f.Replay == "" || f.Replay == l.Replay) && (f.Key == "" || f.Key == l.Key) && (f.Group == "" || f.Group == l.Fingerprint) &&
		(f.Error == "" || strings.Contains(strings.ToLower(l.Message), strings.ToLower(f.Error))) &&
		(f.Since.IsZero() || !l.DiedAt.Before(f.Since)) && (f.Until.IsZero() || l.DiedAt.Before(f.Until))
}

// Records is the ledger as far as letters need it.
type Records interface {
	Record(call string) (*dedupe.Record, error)
}

// state is what has become of a letter: the record holds it for its current
// generation; an earlier letter is replaying until the next generation settles.
func state(l *schemas.Letter, rs Records) {
	r, err := rs.Record(l.Call)
	switch {
	case errors.Is(err, dedupe.ErrNotFound) && l.Reason != schemas.ReasonMalformed && l.Reason != schemas.ReasonRejected:
		l.State = schemas.LetterResolved // a record stays while its letter is active: what is forgotten was dealt with
	case err != nil:
		return // a refusal nobody touched: active
	case r.Generation == l.Generation && r.Letter != "":
		l.State, l.Note = r.Letter, r.Note
	case r.Generation > l.Generation && r.State.Terminal(), r.Generation == l.Generation && r.State.Terminal():
		l.State = schemas.LetterResolved
	case r.Generation > l.Generation:
		l.State = schemas.LetterReplaying
	}
}

// Page is one page of a list, newest first.
type Page struct {
	Letters []schemas.Letter `json:"items"`
	Total   int              `json:"total"`          // that match, on all pages
	Next    uint64           `json:"next,omitempty"` // Before of the next page
}

// List returns letters that match, newest first, without their bodies.
func (s *Store) List(ctx context.Context, rs Records, f Filter) (Page, error) {
	if f.Limit <= 0 {
		f.Limit = 50
	}
	var p Page
	err := s.each(ctx, rs, f, func(l schemas.Letter) {
		p.Total++
		if f.Before == 0 || l.Sequence < f.Before {
			p.Letters = append(p.Letters, l)
		}
	})
	slices.SortFunc(p.Letters, func(a, b schemas.Letter) int { return cmp.Compare(b.Sequence, a.Sequence) })
	if len(p.Letters) > f.Limit {
		p.Letters = p.Letters[:f.Limit]
		p.Next = p.Letters[f.Limit-1].Sequence
	}
	return p, err
}

// each calls do with every letter that matches, oldest first, reading headers only.
func (s *Store) each(ctx context.Context, rs Records, f Filter, do func(schemas.Letter)) error {
	if err := f.Check(); err != nil {
		return err
	}
	return s.Each(ctx, func(l schemas.Letter) {
		state(&l, rs)
		if f.match(&l) {
			l.Outcome, l.Header, l.Arguments = nil, nil, ""
			do(l)
		}
	})
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
	c, err := s.js.OrderedConsumer(ctx, s.stream, jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		return err
	}
	last := st.CachedInfo().State.LastSeq
	for seq := uint64(0); seq < last; {
		batch, err := c.FetchNoWait(500) // everything up to last is there: waiting for a full batch only costs time
		if err != nil {
			return err
		}
		read := 0
		for m := range batch.Messages() {
			l, at := fromMessage(s.subjects, m)
			read++
			seq = at
			do(l)
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

func fromMessage(subjects schemas.Subjects, m jetstream.Msg) (schemas.Letter, uint64) {
	raw := &jetstream.RawStreamMsg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}
	if meta, err := m.Metadata(); err == nil {
		raw.Sequence = meta.Sequence.Stream
	}
	return read(subjects, raw), raw.Sequence
}

// Oldest counts the letters that match and finds when the first of them died.
func (s *Store) Oldest(ctx context.Context, rs Records, f Filter, count *int, at *time.Time) error {
	return s.each(ctx, rs, f, func(l schemas.Letter) {
		if *count++; at.IsZero() || l.DiedAt.Before(*at) {
			*at = l.DiedAt
		}
	})
}

// Show returns one letter, whole, with its state.
func (o *Operations) Show(ctx context.Context, id string) (schemas.Letter, error) {
	call, generation, err := dedupe.ParseLetterID(id)
	if err != nil {
		return schemas.Letter{}, err
	}
	l, err := o.Store.Get(ctx, call, generation)
	if err == nil {
		state(&l, o.Ledger)
	}
	return l, err
}

// Group is letters that died of the same thing.
type Group struct {
	ID     string    `json:"id"`
	By     string    `json:"by"`
	Count  int       `json:"count"`
	Tool   string    `json:"tool,omitempty"` // "" when the group spans several
	Reason string    `json:"reason,omitempty"`
	Code   string    `json:"code,omitempty"`
	Error  string    `json:"error,omitempty"` // of the newest
	Runs   int       `json:"runs"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`

	runs map[string]bool
}

// GroupKeys are what letters can be grouped by.
var GroupKeys = []string{"fingerprint", "tool", "reason", "run", "code"}

// Groups returns the matching letters in groups, the largest first.
func (s *Store) Groups(ctx context.Context, rs Records, f Filter, by string) ([]Group, error) {
	key := map[string]func(*schemas.Letter) string{
		"fingerprint": func(l *schemas.Letter) string { return l.Fingerprint },
		"tool":        func(l *schemas.Letter) string { return l.Tool },
		"reason":      func(l *schemas.Letter) string { return l.Reason },
		"run":         func(l *schemas.Letter) string { return l.Run },
		"code":        func(l *schemas.Letter) string { return l.Code },
	}[cmp.Or(by, "fingerprint")]
	if key == nil {
		return nil, fmt.Errorf("cannot group by %q; try one of %s", by, strings.Join(GroupKeys, ", "))
	}
	groups := map[string]*Group{}
	err := s.each(ctx, rs, f, func(l schemas.Letter) {
		id := key(&l)
		g, ok := groups[id]
		if !ok {
			g = &Group{ID: id, By: cmp.Or(by, "fingerprint"), Tool: l.Tool, Reason: l.Reason, Code: l.Code, First: l.DiedAt, runs: map[string]bool{}}
			groups[id] = g
		}
		g.add(&l)
	})
	out := make([]Group, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.ID, b.ID)) })
	return out, err
}

func (g *Group) add(l *schemas.Letter) {
	g.Count++
	g.runs[l.Tenant+"/"+l.Run] = true
	g.Runs = len(g.runs)
	g.Last, g.Error = l.DiedAt, l.Message
	if l.DiedAt.Before(g.First) {
		g.First = l.DiedAt
	}
	for _, same := range []struct {
		have *string
		now  string
	}{{&g.Tool, l.Tool}, {&g.Reason, l.Reason}, {&g.Code, l.Code}} {
		if *same.have != same.now {
			*same.have = ""
		}
	}
}
