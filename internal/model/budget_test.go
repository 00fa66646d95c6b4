package model

import (
	"slices"
	"strings"
	"time"
)

// The policy of every tool, as the model knows it; its text is in world_test.go.
const (
	maxTries      = 3
	timeout       = 3 * time.Second
	backoffBase   = 200 * time.Millisecond
	backoffCap    = 2 * time.Second
	maxRetryAfter = 10 * time.Second
	runAttempts   = 14
	runEffects    = 8
	runElapsed    = 4 * time.Minute
	runRepairs    = 2
)

// account is one run path's part of the budget.
type account struct {
	attempts, effects           int // spent
	attemptsLimit, effectsLimit int
	attemptsNamed, effectsNamed bool
	cancelled                   bool
	open                        bool // it has limits; one that was only cancelled has none
}

// run is the accounts of one sequence: everything that changed them, in the order of
// time, which is not the order in which it is heard of.
type run struct {
	started  time.Time
	accounts map[string]account // now
	repairs  int
	changes  []change
}

// change is one thing that happened to some accounts.
type change struct {
	at    time.Time
	paths []string
	names bool // limits
	do    func(*account)
}

func (c change) apply(accounts map[string]account) {
	for _, p := range c.paths {
		a := accounts[p]
		c.do(&a)
		accounts[p] = a
	}
}

func (r *run) change(at time.Time, paths []string, do func(*account)) {
	r.insert(change{at: at, paths: paths, do: do})
}

// insert puts a change where it belongs in time. Within an instant the naming of
// limits comes last: a charge that was made either came before it or fits below what
// it names, and then the order makes no difference.
func (r *run) insert(c change) {
	if r.started.IsZero() {
		r.started = c.at
	}
	i := len(r.changes)
	for i > 0 && (r.changes[i-1].at.After(c.at) || r.changes[i-1].at.Equal(c.at) && r.changes[i-1].names && !c.names) {
		i--
	}
	r.changes = slices.Insert(r.changes, i, c)
	r.accounts = map[string]account{}
	for _, c := range r.changes {
		c.apply(r.accounts)
	}
}

// up lists a path and everything above it.
func up(path string) []string {
	all := []string{path}
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path, '/') {
		path = path[:i]
		all = append(all, path)
	}
	return all
}

// admit opens the accounts on a path, and lets a message name its own path's limits.
func (r *run) admit(at time.Time, path string, attempts, effects int) {
	r.change(at, up(path), func(a *account) {
		if !a.open {
			a.open, a.attemptsLimit, a.effectsLimit = true, runAttempts, runEffects
		}
	})
	r.insert(change{at: at, paths: []string{path}, names: attempts >= 0 || effects >= 0, do: func(a *account) {
		if attempts >= 0 && !a.attemptsNamed {
			a.attemptsNamed, a.attemptsLimit = true, min(a.attemptsLimit, max(attempts, a.attempts))
		}
		if effects >= 0 && !a.effectsNamed {
			a.effectsNamed, a.effectsLimit = true, min(a.effectsLimit, max(effects, a.effects))
		}
	}})
}

func (r *run) charge(at time.Time, path string, write bool) {
	r.change(at, up(path), func(a *account) {
		a.attempts++
		if write {
			a.effects++
		}
	})
}

// cancel marks a path and what is known below it.
func (r *run) cancel(at time.Time, path string) {
	marked := []string{path}
	for p := range r.accounts {
		if strings.HasPrefix(p, path+"/") {
			marked = append(marked, p)
		}
	}
	r.change(at, marked, func(a *account) { a.cancelled = true })
}

func (r *run) deadline() time.Time { return r.started.Add(runElapsed) }

// spent names the dimension that refuses one more dispatch; "" where none does.
func spent(accounts map[string]account, path string, write bool) string {
	paths := up(path)
	for i := len(paths) - 1; i >= 0; i-- { // from the root
		switch a := accounts[paths[i]]; {
		case a.attempts >= a.attemptsLimit:
			return "attempts"
		case write && a.effects >= a.effectsLimit:
			return "side_effects"
		}
	}
	return ""
}

func cancelled(accounts map[string]account, path string) bool {
	for _, p := range up(path) {
		if accounts[p].cancelled {
			return true
		}
	}
	return false
}

// around calls f with the accounts as they may have been at an instant: what
// happened at that very instant may have come before or after.
func (r *run) around(at time.Time, f func(map[string]account)) {
	accounts := map[string]account{}
	looked := false
	for _, c := range r.changes {
		if c.at.After(at) {
			break
		}
		if !looked && c.at.Equal(at) {
			looked = true
			f(accounts)
		}
		c.apply(accounts)
		if looked {
			f(accounts)
		}
	}
	if !looked {
		f(accounts)
	}
}
