package verify

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// budgetPasses is how often a run that does not add up is added up anew. Its
// records are read while they move, so only one that stood still can be judged.
const budgetPasses = 3

// recorded is what the records of one run path say was charged to it.
type recorded struct {
	attempts, effects int
	trimmed           bool      // there were more: a history is at its bound, or an account before this one paid
	used              time.Time // when the path was last used; zero: a call is live
}

// budgets checks every account against its limit, its children, and the records.
func (v *verifier) budgets(ctx context.Context) error {
	limits := v.check("I3", "no account has spent more than its limit, or less than the accounts below it")
	sums := v.check("I4", "the attempts and side effects charged are those recorded")
	var again map[string]bool // the runs still in doubt; nil: all
	for pass := range budgetPasses {
		if pass > 0 {
			if err := sleep(ctx, lookAfter); err != nil {
				return err
			}
		}
		doubtful, err := v.addUp(ctx, limits, sums, again)
		if err != nil || len(doubtful) == 0 {
			return err
		}
		if pass == budgetPasses-1 {
			for _, key := range slices.Sorted(maps.Keys(doubtful)) {
				for _, fault := range doubtful[key] {
					blame(sums, fault)
				}
			}
		}
		again = map[string]bool{}
		for key := range doubtful {
			again[key] = true
		}
	}
	return nil
}

// addUp walks runs, records and runs again. It returns what does not add up of the
// runs that stood still, and, without faults, the runs that moved.
func (v *verifier) addUp(ctx context.Context, limits, sums *control.Check, only map[string]bool) (map[string][]string, error) {
	before, err := v.spending()
	if err != nil {
		return nil, err
	}
	own, err := v.recorded(ctx, before)
	if err != nil {
		return nil, err
	}
	doubtful, seen := map[string][]string{}, map[string]bool{}
	err = v.Ledger.Runs(func(run *budget.Run) bool {
		key := runKey(run.Tenant, run.Root)
		seen[key] = true
		if only == nil {
			limits.Checked += len(run.Accounts)
			sums.Checked += len(run.Accounts)
			for _, fault := range overspent(run) {
				blame(limits, fault)
			}
		} else if !only[key] {
			return ctx.Err() == nil
		}
		if before[key].spent != spent(run) {
			doubtful[key] = nil // it moves
		} else if faults := v.unlike(run, own[key]); len(faults) > 0 {
			doubtful[key] = faults
		}
		return ctx.Err() == nil
	})
	for key := range own {
		if !seen[key] && (only == nil || only[key]) && !v.forgotten(own[key]) {
			doubtful[key] = []string{fmt.Sprintf("run %s has attempts recorded and no account", key)}
		}
	}
	return doubtful, err
}

// forgotten reports whether the accounts of these records may be gone. A record is kept
// for a retention from what became of its letter, the accounts from their last use.
func (v *verifier) forgotten(own map[string]recorded) bool {
	for _, sum := range own {
		if sum.used.IsZero() || !v.expired(sum.used) {
			return false
		}
	}
	return true
}

// lastUse is when the run that paid for an attempt was last used for its generation.
// An earlier generation is no use of a run any more: another may be paying by now.
func lastUse(r *dedupe.Record, a schemas.Attempt) time.Time {
	switch {
	case a.Generation == r.Generation:
		return r.Settled
	case a.Ended.IsZero():
		return a.Started
	}
	return a.Ended
}

func runKey(tenant, root string) string { return tenant + "/" + root }

// spent names the state of a run's spending.
func spent(run *budget.Run) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(run.Accounts)) {
		a := run.Accounts[path]
		fmt.Fprintf(&b, "%s %d %d;", path, a.Attempts, a.Effects)
	}
	fmt.Fprint(&b, run.Used.UnixNano())
	return b.String()
}

// account is a run as it was at a first look.
type account struct {
	spent   string
	started time.Time
}

func (v *verifier) spending() (map[string]account, error) {
	all := map[string]account{}
	err := v.Ledger.Runs(func(run *budget.Run) bool {
		all[runKey(run.Tenant, run.Root)] = account{spent(run), run.Started}
		return true
	})
	return all, err
}

// recorded adds up the attempts of all records by run and by the path that paid for
// them. A live record may settle while the walk is on its way and come a second
// time: once counts. What is older than the run was paid by one of the same name that
// is forgotten, and does not count.
func (v *verifier) recorded(ctx context.Context, runs map[string]account) (map[string]map[string]recorded, error) {
	own, live := map[string]map[string]recorded{}, map[string]bool{}
	err := v.Ledger.Records(0, func(seq uint64, r *dedupe.Record) bool {
		if seq == math.MaxUint64 {
			live[r.Call] = true
		} else if live[r.Call] {
			return ctx.Err() == nil
		}
		for _, a := range r.Attempts {
			path, write := r.PaidBy(a.Generation)
			key := runKey(r.Tenant, schemas.Root(path))
			if own[key] == nil {
				own[key] = map[string]recorded{}
			}
			own[key][path] = own[key][path].with(r, a, write, v.past(lastUse(r, a), runs[key].started))
		}
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return own, err
}

// past reports whether an account that was used last at an instant was one before that
// of a run which started later: a run is never forgotten sooner than a retention.
func (v *verifier) past(used, started time.Time) bool {
	return !used.IsZero() && v.expired(used) && used.Before(started)
}

// with adds one attempt; of one that is past it is only known that there was one.
func (sum recorded) with(r *dedupe.Record, a schemas.Attempt, write, past bool) recorded {
	if used := lastUse(r, a); sum == (recorded{}) || !sum.used.IsZero() && (used.IsZero() || used.After(sum.used)) {
		sum.used = used
	}
	if sum.trimmed = sum.trimmed || past || len(r.Attempts) >= dedupe.MaxAttemptsKept; past {
		return sum
	}
	sum.attempts++
	if write && !a.Reconcile && a.Phase != classify.NotSent.String() {
		sum.effects++
	}
	return sum
}

// overspent holds the accounts of a run against their limits and one another.
func overspent(run *budget.Run) (faults []string) {
	below := map[string]budget.Account{}
	for path, a := range run.Accounts {
		if a.Attempts > a.Limits.Attempts || a.Effects > a.Limits.SideEffects {
			faults = append(faults, fmt.Sprintf("account %s of tenant %s has spent %d of %d attempts and %d of %d side effects",
				path, run.Tenant, a.Attempts, a.Limits.Attempts, a.Effects, a.Limits.SideEffects))
		}
		if i := strings.LastIndexByte(path, '/'); i > 0 {
			sum := below[path[:i]]
			sum.Attempts, sum.Effects = sum.Attempts+a.Attempts, sum.Effects+a.Effects
			below[path[:i]] = sum
		}
	}
	for path, sum := range below {
		if a := run.Accounts[path]; a.Attempts < sum.Attempts || a.Effects < sum.Effects {
			faults = append(faults, fmt.Sprintf("account %s of tenant %s has spent %d attempts and %d side effects, those below it %d and %d",
				path, run.Tenant, a.Attempts, a.Effects, sum.Attempts, sum.Effects))
		}
	}
	slices.Sort(faults)
	return faults
}

// unlike says where the charges of a run are not what its records say. A run older
// than the retention may have lost records, and then has only to have charged as
// much as is left.
func (v *verifier) unlike(run *budget.Run, own map[string]recorded) (faults []string) {
	for _, path := range slices.Sorted(maps.Keys(run.Accounts)) {
		a := run.Accounts[path]
		var sum recorded
		for p, r := range own {
			if p == path || strings.HasPrefix(p, path+"/") {
				sum = recorded{attempts: sum.attempts + r.attempts, effects: sum.effects + r.effects, trimmed: sum.trimmed || r.trimmed}
			}
		}
		partial := sum.trimmed || v.expired(run.Started)
		if a.Attempts < sum.attempts || a.Effects < sum.effects || !partial && (a.Attempts != sum.attempts || a.Effects != sum.effects) {
			faults = append(faults, fmt.Sprintf("account %s of tenant %s was charged %d attempts and %d side effects, and %d and %d are recorded",
				path, run.Tenant, a.Attempts, a.Effects, sum.attempts, sum.effects))
		}
	}
	return faults
}
