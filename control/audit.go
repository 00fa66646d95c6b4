package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
)

// auditWindow is how many sequences of the audit are read at a time, from the newest
// backwards.
const auditWindow = 2000

// auditList reads the operators' decisions, the newest first.
func (s *Server) auditList(ctx context.Context, q AuditQuery, _ string) (AuditPage, error) {
	subjects, err := s.auditSubjects(q)
	if err != nil {
		return AuditPage{}, err
	}
	st, err := s.cfg.JetStream.Stream(ctx, s.cfg.Audit)
	if err != nil {
		return AuditPage{}, err
	}
	state, limit := st.CachedInfo().State, cmp.Or(q.Limit, 50)
	p := AuditPage{Entries: []AuditEntry{}}
	last, size := state.LastSeq, 0
	if q.Before > 0 {
		last = min(last, q.Before-1)
	}
	for last > 0 && last >= state.FirstSeq {
		first := max(state.FirstSeq, last-min(last-1, auditWindow-1))
		found, err := s.audits(ctx, subjects, first, last)
		if err != nil {
			return p, err
		}
		for _, e := range slices.Backward(found) {
			if !q.Since.IsZero() && e.At.Before(q.Since) {
				return p, nil // entries are stored in about the order in which they were made
			}
			if !q.match(&e) {
				continue
			}
			if size += 600 + len(e.Why) + len(e.Detail) + len(e.Before) + len(e.After) + len(e.Target); len(p.Entries) == limit || len(p.Entries) > 0 && size > mostListed {
				p.Next = p.Entries[len(p.Entries)-1].Sequence
				return p, nil
			}
			p.Entries = append(p.Entries, e)
		}
		last = first - 1
	}
	return p, nil
}

// AuditActions are what operators can have decided, and what the dispatcher decides by
// itself.
var AuditActions = auditActions()

func auditActions() []string {
	all := []string{"expire", "replays_canary", "replays_" + string(dedupe.ReplayStop), "replays_" + string(dedupe.ReplayFinish)}
	for _, w := range words {
		if Needs(w.verb) != Viewer {
			all = append(all, actionOf(w.verb))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Check reports what keeps a query from matching what was meant.
func (q AuditQuery) Check() error {
	for _, a := range q.actions() {
		if a != "*" && !slices.Contains(AuditActions, a) {
			return fmt.Errorf("%q is not an action; the actions are %s", a, strings.Join(AuditActions, ", "))
		}
	}
	return nil
}

func (q AuditQuery) actions() []string {
	if q.Action == "" {
		return []string{"*"}
	}
	return strings.Split(q.Action, ",")
}

func (s *Server) auditSubjects(q AuditQuery) ([]string, error) {
	if err := q.Check(); err != nil {
		return nil, bad("%v", err)
	}
	var out []string
	for _, a := range q.actions() {
		out = append(out, s.cfg.Subjects.Audit(cmp.Or(q.Tenant, "*"), a))
	}
	return out, nil
}

func (q AuditQuery) match(e *AuditEntry) bool {
	return (q.By == "" || strings.Contains(strings.ToLower(e.By), strings.ToLower(q.By))) &&
		(q.Target == "" || strings.Contains(e.Target, q.Target)) && (q.Until.IsZero() || e.At.Before(q.Until)) && !(q.Refused && e.Allowed)
}

// audits reads what the audit has of some subjects between two sequences.
func (s *Server) audits(ctx context.Context, subjects []string, first, last uint64) ([]AuditEntry, error) {
	c, err := s.cfg.JetStream.OrderedConsumer(ctx, s.cfg.Audit, jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first})
	if err != nil {
		return nil, err
	}
	var out []AuditEntry
	for {
		batch, err := c.FetchNoWait(500)
		if err != nil {
			return nil, err
		}
		read := 0
		for m := range batch.Messages() {
			read++
			meta, err := m.Metadata()
			if err != nil || meta.Sequence.Stream > last {
				continue
			}
			e := AuditEntry{Sequence: meta.Sequence.Stream}
			if json.Unmarshal(m.Data(), &e.Audit) == nil { // what somebody else wrote is none of ours
				out = append(out, e)
			}
		}
		if err := batch.Error(); err != nil || read == 0 || len(out) > 0 && out[len(out)-1].Sequence >= last {
			return out, err
		}
	}
}
