package client

import (
	"strings"
	"sync"

	"tollgate/schemas"
)

// mostSpent bounds what is remembered. Forgetting costs a question, never a charge:
// the dispatcher refuses by its own books.
const mostSpent = 10_000

// account is what an outcome named as exhausted.
type account struct{ tenant, scope, reason string }

// spent remembers the run paths whose budget is exhausted, so that an agent that goes
// on asking is answered here.
type spent struct {
	mu sync.Mutex // guards by
	by map[account]*Outcome
}

func newSpent() *spent { return &spent{by: map[account]*Outcome{}} }

// reasonSideEffects blocks writes only: the read that is needed to reconcile still runs.
const reasonSideEffects = "side_effects"

// learn remembers an outcome that names a run path's budget.
func (s *spent) learn(o *Outcome) {
	if o.Status != schemas.Exhausted || o.Code() != schemas.CodeRunBudget || o.Error.Scope == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) >= mostSpent {
		for k := range s.by { // any one
			delete(s.by, k)
			break
		}
	}
	s.by[account{o.Tenant, o.Error.Scope, o.Error.Reason}] = o
}

// refuse answers a call of a path that is spent, or below one.
func (s *spent) refuse(tenant, run string, write bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := run; path != ""; path = parent(path) {
		for _, reason := range []string{"attempts", "elapsed_time", reasonSideEffects} {
			o, ok := s.by[account{tenant, path, reason}]
			if ok && (write || reason != reasonSideEffects) {
				return &OutcomeError{Outcome: o, Unsent: true}
			}
		}
	}
	return nil
}

// forget drops what is remembered of a root run.
func (s *spent) forget(tenant, root string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.by {
		if k.tenant == tenant && schemas.Root(k.scope) == root {
			delete(s.by, k)
		}
	}
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return ""
	}
	return path[:i]
}

// Forget lets calls of a run, its parents and children pass again, after an operator
// has granted it more. Options other than [Tenant] have no effect.
func (c *Client) Forget(run string, opts ...Option) {
	s := c.settings(opts)
	c.spent.forget(s.tenant, schemas.Root(run))
}
