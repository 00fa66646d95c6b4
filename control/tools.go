package control

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// ToolsQuery narrows the catalogue.
type ToolsQuery struct {
	Tool   string        `json:"tool,omitempty"` // glob
	Effect dedupe.Effect `json:"effect,omitempty"`
	State  string        `json:"state,omitempty"` // one of ToolStates
}

// ToolStates are what a tool can be: paused by an operator, held by its dependency's
// breaker, or served.
var ToolStates = []string{"serving", "paused", "broken"}

// State is which of the ToolStates the tool is in.
func (d *ToolDetail) State() string {
	switch {
	case d.Paused != nil:
		return "paused"
	case d.Health.Breaker == "open" || d.Health.Breaker == "half-open":
		return "broken"
	}
	return "serving"
}

// ToolQuery names a tool.
type ToolQuery struct {
	Tool string `json:"tool"`
	Why  string `json:"why,omitempty"`
}

// ToolDetail is one tool as it is served.
type ToolDetail struct {
	Name         string                    `json:"name"`
	Kind         string                    `json:"executor"` // http, exec, nats or function
	Effect       dedupe.Effect             `json:"effect"`
	Safety       dedupe.Safety             `json:"retry_safety,omitempty"`
	KeyRetention time.Duration             `json:"key_retention,omitempty"`
	Dependency   string                    `json:"dependency"`
	Concurrency  int                       `json:"concurrency"`
	JobsAtMost   int                       `json:"jobs_at_most"`
	Running      int                       `json:"running"`
	Policies     map[schemas.Lane][]string `json:"policies"`
	Reconcile    string                    `json:"reconcile,omitempty"`
	Schema       json.RawMessage           `json:"schema,omitempty"`
	Redact       []string                  `json:"redact,omitempty"` // JSON pointers hidden at display
	Health       dispatcher.Health         `json:"health"`
	Limits       ToolLimits                `json:"limits"`
	Backlog      map[string]uint64         `json:"backlog"` // pending messages by consumer
	Paused       *dedupe.Pause             `json:"paused,omitempty"`
}

// ToolLimits are what stands behind the names of a tool's policies and dependency.
type ToolLimits struct {
	Policies   []dispatcher.Policy   `json:"policies"`
	Dependency dispatcher.Dependency `json:"dependency"`
}

// ToolsPage is the catalogue.
type ToolsPage struct {
	Tools []ToolDetail `json:"items"`
}

func (s *Server) toolsList(ctx context.Context, q ToolsQuery, _ string) (ToolsPage, error) {
	if _, err := path.Match(q.Tool, ""); err != nil {
		return ToolsPage{}, bad("tool %q is not a glob", q.Tool)
	}
	if q.State != "" && !slices.Contains(ToolStates, q.State) {
		return ToolsPage{}, bad("%q is no state of a tool; the states are %v", q.State, ToolStates)
	}
	p := ToolsPage{Tools: []ToolDetail{}}
	for _, t := range s.cfg.Tools {
		if named, _ := path.Match(q.Tool, t.Name); q.Tool != "" && !named || q.Effect != "" && q.Effect != t.Effect {
			continue
		}
		if d := s.tool(ctx, t); q.State == "" || q.State == d.State() {
			p.Tools = append(p.Tools, d)
		}
	}
	return p, nil
}

// noTool is the error for a name that no tool has. It is answered like any other that
// is not there, in its own words: the ledger does not come into it.
type noTool string

func (t noTool) Error() string { return "tool " + string(t) + " is not in the catalogue" }

func (noTool) Is(target error) bool { return target == dedupe.ErrNotFound }

func (s *Server) toolShow(ctx context.Context, q ToolQuery, _ string) (ToolDetail, error) {
	for _, t := range s.cfg.Tools {
		if t.Name == q.Tool {
			return s.tool(ctx, t), nil
		}
	}
	return ToolDetail{}, noTool(q.Tool)
}

func (s *Server) tool(ctx context.Context, t *dispatcher.Tool) ToolDetail {
	slots := s.cfg.Dispatcher.Slots(t)
	d := ToolDetail{Name: t.Name, Kind: t.Kind, Effect: t.Effect, Safety: t.Safety, KeyRetention: t.KeyRetention, Dependency: t.Dependency,
		Concurrency: slots.Cap, JobsAtMost: slots.Jobs, Running: slots.InUse(), Policies: t.Policies, Reconcile: t.Reconcile, Redact: t.Redact,
		Schema: s.cfg.Schemas[t.Name], Health: s.cfg.Dispatcher.Health(t.Dependency), Limits: s.limits(t), Backlog: map[string]uint64{}}
	if d.Effect == dedupe.Write && d.Safety == "" {
		d.Safety = dedupe.Never
	}
	if p, ok := s.cfg.Ledger.Pauses()[t.Name]; ok {
		d.Paused = &p
	}
	for lane, stream := range s.cfg.Lanes {
		s.backlog(ctx, d.Backlog, string(lane), stream, s.cfg.Subjects.Submit(lane, "*", t.Name))
		s.backlog(ctx, d.Backlog, string(lane)+" retries", s.cfg.Retry, s.cfg.Subjects.Retry(lane, "*", "*", t.Name))
	}
	return d
}

// limits are those of every policy that a call of the tool may name.
func (s *Server) limits(t *dispatcher.Tool) ToolLimits {
	catalogue := s.cfg.Dispatcher.Catalogue()
	l := ToolLimits{Policies: []dispatcher.Policy{}}
	l.Dependency, _ = catalogue.Dependency(t.Dependency)
	names := map[string]bool{}
	for _, lane := range t.Policies {
		for _, name := range lane {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if p, ok := catalogue.Policy(name); ok {
			l.Policies = append(l.Policies, p)
		}
	}
	return l
}

func (s *Server) backlog(ctx context.Context, into map[string]uint64, name, stream, subject string) {
	st, err := s.cfg.JetStream.Stream(ctx, stream)
	if err != nil {
		return
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return
	}
	for n := range maps.Values(info.State.Subjects) {
		into[name] += n
	}
}

func (s *Server) toolPause(ctx context.Context, q ToolQuery, by string) (ToolDetail, error) {
	now := time.Now()
	return s.setPause(ctx, q, by, "pause", &dedupe.Pause{At: now, By: by, Why: q.Why})
}

func (s *Server) toolResume(ctx context.Context, q ToolQuery, by string) (ToolDetail, error) {
	return s.setPause(ctx, q, by, "resume", nil)
}

func (s *Server) setPause(ctx context.Context, q ToolQuery, by, action string, p *dedupe.Pause) (ToolDetail, error) {
	if _, err := s.toolShow(ctx, q, by); err != nil {
		return ToolDetail{}, err
	}
	receipt, err := s.cfg.Ledger.SetPause(ctx, q.Tool, p, func(was *dedupe.Pause) dedupe.Audit {
		return dedupe.Audit{At: time.Now(), Action: action, Target: "tool " + q.Tool, By: by, Why: q.Why, Allowed: true, Before: was.String(), After: p.String()}
	})
	if err != nil {
		return ToolDetail{}, err
	}
	s.cfg.Publish(receipt.Audit)
	return s.toolShow(ctx, q, by)
}
