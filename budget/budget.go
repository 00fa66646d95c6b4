// Package budget is the arithmetic of a run's limits: accounts along a run path,
// charged all or none before a dispatch, in three dimensions (attempts, elapsed
// time, side effects), and of a dependency's retry quota.
//
// It holds no clock, no storage and no policy: the caller passes the instant and
// the maxima, and keeps the values. What a refusal leads to is the gate's.
package budget

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// Dimension is what a limit counts.
type Dimension uint8

// The dimensions; zero is none.
const (
	Attempts Dimension = iota + 1
	ElapsedTime
	SideEffects
)

func (d Dimension) String() string {
	return [...]string{"", "attempts", "elapsed_time", "side_effects"}[d]
}

// ErrTooManyAccounts is returned by [Run.Open] when a run would hold more
// accounts than its policy allows.
var ErrTooManyAccounts = errors.New("run has too many accounts")

// Limits are absolute: a counter's most, and an instant.
type Limits struct {
	Attempts    int       `json:"attempts"`
	SideEffects int       `json:"side_effects"`
	Deadline    time.Time `json:"deadline"`
}

// Named are the limits a message names for its own path; nil is absent.
type Named struct {
	Attempts    *int
	SideEffects *int
	Deadline    *time.Time
}

// Maxima are what the policy allows a run at most.
type Maxima struct {
	Attempts    int           `json:"attempts"`
	SideEffects int           `json:"side_effects"`
	Elapsed     time.Duration `json:"elapsed"`
	Accounts    int           `json:"accounts"`
}

// Grant raises an account's limits. It is always explicit and always recorded.
type Grant struct {
	Attempts    int           `json:"attempts,omitempty"`
	SideEffects int           `json:"side_effects,omitempty"`
	Elapsed     time.Duration `json:"elapsed,omitempty"` // added to the deadline
	By          string        `json:"by"`
	Why         string        `json:"why"`
	At          time.Time     `json:"at"`
}

// Account is one run path's part of the budget.
type Account struct {
	Path      string    `json:"path"`
	Limits    Limits    `json:"limits"`
	Attempts  int       `json:"attempts"`     // spent
	Effects   int       `json:"side_effects"` // spent
	Cancelled bool      `json:"cancelled,omitempty"`
	Reason    string    `json:"reason,omitempty"` // why it was cancelled
	Named     Naming    `json:"named,omitzero"`   // which limits a message has named already
	Grants    []Grant   `json:"grants,omitempty"`
	Opened    time.Time `json:"opened"`
}

// Naming says which limits of an account a message has named. Each is named once:
// what an operator grants is not taken back by the next message's headers.
type Naming struct {
	Attempts    bool `json:"attempts,omitempty"`
	SideEffects bool `json:"side_effects,omitempty"`
	Deadline    bool `json:"deadline,omitempty"`
}

// Run is the budget record of one root run of one tenant.
type Run struct {
	Tenant   string             `json:"tenant"`
	Root     string             `json:"root"`
	Started  time.Time          `json:"started"` // stream time of the message that created it
	Accounts map[string]Account `json:"accounts"`
	Repairs  int                `json:"repairs,omitempty"`
	Used     time.Time          `json:"used"` // last settled call; it outlives that call's record
}

// Refusal says which dimension of which account stands in the way.
type Refusal struct {
	Dimension Dimension // zero: nothing does
	Scope     string    // the account's path
}

// New returns an empty run.
func New(tenant, root string, started time.Time) *Run {
	return &Run{Tenant: tenant, Root: root, Started: started, Accounts: map[string]Account{}}
}

// Clone returns a deep copy.
func (r *Run) Clone() *Run {
	c := *r
	c.Accounts = maps.Clone(r.Accounts)
	for p, a := range c.Accounts {
		a.Grants = slices.Clone(a.Grants)
		c.Accounts[p] = a
	}
	return &c
}

// Paths lists the accounts a message on path is charged to, root first.
func Paths(path string) []string {
	var out []string
	for i, c := range path {
		if c == '/' {
			out = append(out, path[:i])
		}
	}
	return append(out, path)
}

// Open creates every missing account on path and applies the limits the message
// names for path itself. The first naming of a limit may lower it, however late it
// comes, never below what is spent; it never raises it, and later ones change nothing.
func (r *Run) Open(path string, named Named, max Maxima, at time.Time) error {
	for _, p := range Paths(path) {
		a, ok := r.Accounts[p]
		if !ok && len(r.Accounts) >= max.Accounts {
			return ErrTooManyAccounts
		}
		if a.Limits.Deadline.IsZero() { // new, or cancelled before any message named it
			a.Path, a.Opened = p, at
			a.Limits = Limits{Attempts: max.Attempts, SideEffects: max.SideEffects, Deadline: r.Started.Add(max.Elapsed)}
			r.Accounts[p] = a
		}
	}
	a := r.Accounts[path]
	a.name(named)
	r.Accounts[path] = a
	return nil
}

func (a *Account) name(n Named) {
	if n.Attempts != nil && !a.Named.Attempts {
		a.Limits.Attempts, a.Named.Attempts = lower(a.Limits.Attempts, *n.Attempts, a.Attempts), true
	}
	if n.SideEffects != nil && !a.Named.SideEffects {
		a.Limits.SideEffects, a.Named.SideEffects = lower(a.Limits.SideEffects, *n.SideEffects, a.Effects), true
	}
	if n.Deadline != nil && !a.Named.Deadline {
		if a.Named.Deadline = true; n.Deadline.Before(a.Limits.Deadline) {
			a.Limits.Deadline = *n.Deadline
		}
	}
}

func lower(limit, wanted, spent int) int { return min(limit, max(wanted, spent)) }

// Check says whether one more dispatch on path would be refused, and where. The
// nearest account to the root is named first; attempts before side effects.
func (r *Run) Check(path string, write bool) Refusal {
	for _, p := range Paths(path) {
		a, ok := r.Accounts[p]
		switch {
		case !ok:
			continue
		case a.Attempts >= a.Limits.Attempts:
			return Refusal{Attempts, p}
		case write && a.Effects >= a.Limits.SideEffects:
			return Refusal{SideEffects, p}
		}
	}
	return Refusal{}
}

// Charge debits one dispatch to every account from path up to the root, all or
// none: attempts always, a side effect for a write.
func (r *Run) Charge(path string, write bool) Refusal {
	if no := r.Check(path, write); no.Dimension != 0 {
		return no
	}
	r.Spend(path, write)
	return Refusal{}
}

// Spend books one dispatch that has already happened, whatever the limits: a
// ledger that was lost is rebuilt from outcomes.
func (r *Run) Spend(path string, write bool) {
	for _, p := range Paths(path) {
		if a, ok := r.Accounts[p]; ok {
			a.Attempts++
			if write {
				a.Effects++
			}
			r.Accounts[p] = a
		}
	}
}

// Refund gives the side effect of one dispatch back to every account on path. It
// may be called only on proof that nothing was sent. The attempt stays charged.
func (r *Run) Refund(path string) {
	for _, p := range Paths(path) {
		if a, ok := r.Accounts[p]; ok && a.Effects > 0 {
			a.Effects--
			r.Accounts[p] = a
		}
	}
}

// Deadline returns the earliest deadline on path and the account it belongs to.
// A path without accounts has none: the zero time.
func (r *Run) Deadline(path string) (time.Time, string) {
	var at time.Time
	var scope string
	for _, p := range Paths(path) {
		if a, ok := r.Accounts[p]; ok && (at.IsZero() || a.Limits.Deadline.Before(at)) {
			at, scope = a.Limits.Deadline, p
		}
	}
	return at, scope
}

// Cancelled reports whether path or anything above it was cancelled.
func (r *Run) Cancelled(path string) bool {
	return slices.ContainsFunc(Paths(path), func(p string) bool { return r.Accounts[p].Cancelled })
}

// Cancel marks path and every account below it. A path without an account gets
// one, so that a run unknown now is remembered as cancelled.
func (r *Run) Cancel(path, reason string, at time.Time) {
	if _, ok := r.Accounts[path]; !ok {
		r.Accounts[path] = Account{Path: path, Opened: at}
	}
	for p, a := range r.Accounts {
		if p == path || strings.HasPrefix(p, path+"/") {
			a.Cancelled, a.Reason = true, reason
			r.Accounts[p] = a
		}
	}
}

// Grant raises the limits of the account at path by g. It reports whether there
// is such an account.
func (r *Run) Grant(path string, g Grant) bool {
	a, ok := r.Accounts[path]
	if !ok {
		return false
	}
	a.Limits.Attempts += g.Attempts
	a.Limits.SideEffects += g.SideEffects
	if g.Elapsed > 0 {
		a.Limits.Deadline = a.Limits.Deadline.Add(g.Elapsed)
	}
	a.Grants = append(slices.Clone(a.Grants), g)
	r.Accounts[path] = a
	return true
}
