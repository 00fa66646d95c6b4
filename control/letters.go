package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/micro"

	"tollgate/deadletter"
	"tollgate/schemas"
)

func (s *Server) letterList(ctx context.Context, f deadletter.Filter, _ string) (deadletter.Page, error) {
	if err := f.Check(); err != nil {
		return deadletter.Page{}, bad("%v", err)
	}
	p, err := s.cfg.Letters.Index.List(ctx, f)
	p = fit(p)
	for i, l := range p.Letters {
		p.Letters[i].Message = s.redactMessage(ctx, l.Tool, l.ID, l.Message)
	}
	return p, err
}

// mostListed is about how many bytes of letters an answer may have: it has to fit a message.
const mostListed = 400 << 10

// fit ends a page early whose letters have much to say.
func fit(p deadletter.Page) deadletter.Page {
	size := 0
	for i, l := range p.Letters {
		if size += 800 + len(l.Message) + len(l.Key) + len(l.Run) + len(l.Note); i > 0 && size > mostListed {
			p.Letters, p.Next = p.Letters[:i], p.Letters[i-1].Sequence
			break
		}
	}
	return p
}

// letterIDs freezes the set of a bulk operation, whole or in parts. With State "all"
// or one that is not active it is every letter that matches; of active ones those are
// left out that a replay cannot take: refusals, and unknown outcomes unless asked for.
func (s *Server) letterIDs(ctx context.Context, f deadletter.Filter, _ string) (LetterIDs, error) {
	if err := f.Check(); err != nil {
		return LetterIDs{}, bad("%v", err)
	}
	ids, reasons, next, err := s.cfg.Letters.Index.IDs(ctx, f)
	set := LetterIDs{IDs: []string{}, Skipped: map[string]int{}, Next: next}
	for i, id := range ids {
		switch reason := reasons[i]; {
		case f.State != "":
			set.IDs = append(set.IDs, id)
		case reason == schemas.ReasonMalformed || reason == schemas.ReasonRejected:
			set.Skipped["refused messages are no calls"]++
		case reason == schemas.ReasonUnknownOutcome && f.Reason != schemas.ReasonUnknownOutcome:
			set.Skipped["unknown outcomes are resolved by hand"]++
		default:
			set.IDs = append(set.IDs, id)
		}
	}
	return set, err
}

func (s *Server) groups(ctx context.Context, q GroupsQuery, _ string) (GroupsPage, error) {
	if err := q.Check(); err != nil {
		return GroupsPage{}, bad("%v", err)
	}
	if !slices.Contains(deadletter.GroupKeys, cmp.Or(q.By, "fingerprint")) {
		return GroupsPage{}, bad("cannot group by %q; the keys are %v", q.By, deadletter.GroupKeys)
	}
	gs, count, total, err := s.cfg.Letters.Index.Groups(ctx, q.Filter, q.By)
	for i, g := range gs {
		gs[i].Error = s.redactMessage(ctx, g.Tool, g.Newest, g.Error)
	}
	return GroupsPage{Groups: gs, Count: count, Total: total}, err
}

func (s *Server) letterStats(ctx context.Context, f deadletter.Filter, _ string) (LetterStats, error) {
	if err := f.Check(); err != nil {
		return LetterStats{}, bad("%v", err)
	}
	stats, err := s.cfg.Letters.Index.Stats(ctx, f)
	if err != nil {
		return LetterStats{}, err
	}
	st, err := s.cfg.Letters.Store.Room(ctx)
	return LetterStats{Stats: stats, Bytes: st.Bytes, MaxBytes: st.MaxBytes}, err
}

func (s *Server) purge(ctx context.Context, q PurgeQuery, by string) (Done, error) {
	q.PurgeOptions.By = by
	return s.onLetter(q.ID, func(id string) error { return s.cfg.Letters.Purge(ctx, id, q.PurgeOptions) })
}

func (s *Server) note(ctx context.Context, q NoteQuery, by string) (Done, error) {
	if len(q.ID) > 2 && q.ID[:2] == "g-" {
		return Done{ID: q.ID}, s.cfg.Letters.Note(ctx, q.ID, by, q.Text)
	}
	return s.onLetter(q.ID, func(id string) error { return s.cfg.Letters.Note(ctx, id, by, q.Text) })
}

// export answers with the letter's own headers and bytes: in JSON a large one would
// not fit a message.
func (s *Server) export(r micro.Request) {
	raw(s, r, func(ctx context.Context, _ string) (any, error) {
		var q IDQuery
		if err := decode(r.Data(), &q); err != nil {
			return nil, err
		}
		id, err := s.letter(q.ID)
		if err != nil {
			return nil, err
		}
		p, err := s.cfg.Letters.Export(ctx, id)
		if err != nil {
			return nil, err
		}
		p.Header[HeaderSubject] = []string{p.Subject}
		return nil, r.Respond(p.Body, micro.WithHeaders(micro.Headers(p.Header)))
	})
}

// importLetter takes what export has given.
func (s *Server) importLetter(r micro.Request) {
	raw(s, r, func(ctx context.Context, by string) (any, error) {
		h := schemas.Header(r.Headers()).Clone()
		p := deadletter.Parcel{Subject: h.Get(HeaderSubject), Header: h, Body: r.Data()}
		why := h.Get(HeaderWhy)
		for _, ours := range []string{HeaderBy, HeaderRole, HeaderSubject, HeaderWhy} {
			delete(h, ours)
		}
		id, added, err := s.cfg.Letters.Import(ctx, p, by, why)
		return Imported{ID: id, Added: added}, err
	})
}

// raw answers a request whose body or answer is not JSON. A nil answer has been given.
func raw(s *Server, r micro.Request, f func(ctx context.Context, by string) (any, error)) {
	ctx, cancel := context.WithTimeout(s.base, 2*time.Minute)
	defer cancel()
	a, err := f(ctx, cmp.Or(r.Headers().Get(HeaderBy), "unknown"))
	switch {
	case err != nil:
		s.fail(r, problem(err))
	case a != nil:
		s.respond(r, a)
	}
}
