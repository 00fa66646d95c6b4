package control

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// CallStates are where a call can be.
var CallStates = callStates()

// CallStatuses are how a call can have ended.
var CallStatuses = []string{string(schemas.Succeeded), string(schemas.ToolError), string(schemas.Repair), string(schemas.Failed),
	string(schemas.UnknownOutcome), string(schemas.Exhausted), string(schemas.Unavailable), string(schemas.Rejected), string(schemas.Cancelled)}

func callStates() (names []string) {
	for s := dedupe.InFlight; s <= dedupe.Cancelled; s++ {
		names = append(names, s.String())
	}
	return names
}

// Check reports what keeps a query from matching what was meant.
func (q CallsQuery) Check() error {
	if _, err := path.Match(q.Tool, ""); err != nil {
		return fmt.Errorf("tool %q is not a glob", q.Tool)
	}
	if q.State != "" && !slices.Contains(CallStates, q.State) {
		return fmt.Errorf("%q is no state of a call; the states are %s", q.State, strings.Join(CallStates, ", "))
	}
	if q.Status != "" && !slices.Contains(CallStatuses, q.Status) {
		return fmt.Errorf("%q is no status of a call; the statuses are %s", q.Status, strings.Join(CallStatuses, ", "))
	}
	return nil
}

func (s *Server) callsList(_ context.Context, q CallsQuery, _ string) (CallsPage, error) {
	if err := q.Check(); err != nil {
		return CallsPage{}, bad("%v", err)
	}
	limit := cmp.Or(q.Limit, 50)
	p := CallsPage{Calls: []CallSummary{}}
	last, looked, more := uint64(0), 0, false
	err := s.cfg.Ledger.Records(below(q.After), func(seq uint64, r *dedupe.Record) bool {
		seq = callCursor(seq, r)
		if q.After > 0 && seq >= q.After {
			return true
		}
		if looked++; q.Scan > 0 && looked > q.Scan && seq != last {
			p.Next, p.Short = last, true
			return false
		}
		last = seq
		if r.Fingerprint == "" || !q.match(r) { // without one: the state of a letter that is no call
			return true
		}
		if n := len(p.Calls); n >= limit && (seq != p.Next || n >= limit+mostTied) {
			more = true
			return false
		}
		p.Calls = append(p.Calls, summary(r))
		p.Next = seq
		return true
	})
	if !more && !p.Short {
		p.Next = 0
	}
	return p, err
}

func (q CallsQuery) match(r *dedupe.Record) bool {
	tool, _ := path.Match(q.Tool, r.Tool)
	var status schemas.Status
	if r.Outcome != nil {
		status = r.Outcome.Status
	}
	return (q.Tool == "" || tool) && (q.Tenant == "" || q.Tenant == r.Tenant) && (q.Key == "" || q.Key == r.Key) &&
		(q.Run == "" || r.Run == q.Run || strings.HasPrefix(r.Run, q.Run+"/")) &&
		(q.State == "" || q.State == r.State.String()) && (q.Status == "" || q.Status == string(status))
}

func summary(r *dedupe.Record) CallSummary {
	c := CallSummary{Call: r.Call, Tenant: r.Tenant, Lane: r.Lane, Tool: r.Tool, Run: r.Run, Key: r.Key, State: r.State.String(), Generation: r.Generation,
		Attempts: r.Tries, Limit: r.Terms.Attempts, Published: r.Published, Deadline: r.Deadline, Due: r.Due, Settled: r.Settled}
	if r.Outcome != nil {
		c.Status, c.Code = r.Outcome.Status, r.Outcome.Code()
	}
	return c
}

func (s *Server) callShow(ctx context.Context, q IDQuery, _ string) (CallDetail, error) {
	prefix, _, _ := strings.Cut(q.ID, ".") // a letter's ID names its call
	id, err := s.call(prefix)
	if err != nil {
		return CallDetail{}, err
	}
	r, err := s.cfg.Ledger.Record(id)
	if err != nil {
		return CallDetail{}, fmt.Errorf("call %s: %w", id, err)
	}
	d := CallDetail{CallSummary: summary(r), Fingerprint: r.Fingerprint, DownstreamKey: r.DownstreamKey, Terms: r.Terms, Ambiguous: r.Ambiguous,
		Recoveries: r.Recoveries, Origin: r.Origin, Timeline: r.Attempts, Outcome: r.Outcome, Note: r.Note, Owes: r.Slot.String(),
		ToolCallID: r.ToolCallID, Replay: r.Replay, ReplayBy: r.ReplayBy, Lease: r.Lease}
	if r.Letter != "" {
		d.Letter, d.LetterState = r.LetterID(), string(r.Letter)
	}
	d.EditedTo, d.EditedFrom = r.EditedTo, s.editedFrom(r.EditedFrom, r.Call)
	s.fill(ctx, &d, r)
	return d, nil
}
