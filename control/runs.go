package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// RunsQuery narrows a list of runs.
type RunsQuery struct {
	Tenant string `json:"tenant,omitempty"`
	Run    string `json:"run,omitempty"`   // the beginning of its name
	State  string `json:"state,omitempty"` // one of RunStates
	Sort   string `json:"sort,omitempty"`  // one of RunSorts; "": used
	Limit  int    `json:"limit,omitempty"` // 0: 50
	After  string `json:"after,omitempty"` // Next of the page before
}

// RunSorts are the orders of a list of runs: the last used first, or the one with the
// fewest attempts left.
var RunSorts = []string{"used", "left"}

// Where an account of a run stands. What is not open is named as the limit that stands
// in the way.
const (
	StateOpen      = "open"
	StateCancelled = "cancelled"
)

// RunStates are what a run can be: open, cancelled, or at the end of a limit.
var RunStates = []string{StateOpen, StateCancelled, budget.Attempts.String(), budget.SideEffects.String(), budget.ElapsedTime.String()}

// AccountState says which of the RunStates an account is in.
func AccountState(a budget.Account, now time.Time) string {
	switch {
	case a.Cancelled:
		return StateCancelled
	case a.Attempts >= a.Limits.Attempts:
		return budget.Attempts.String()
	case a.Effects >= a.Limits.SideEffects:
		return budget.SideEffects.String()
	case !a.Limits.Deadline.After(now):
		return budget.ElapsedTime.String()
	}
	return StateOpen
}

// RunState is the state of a run's root or, while that is open, of the first account
// below it that is not; and that account's path.
func RunState(r *budget.Run, now time.Time) (state, path string) {
	for _, path := range slices.Sorted(maps.Keys(r.Accounts)) { // the root is the shortest
		if state := AccountState(r.Accounts[path], now); state != StateOpen {
			return state, path
		}
	}
	return StateOpen, r.Root
}

// RunsPage is one page of a list of runs.
type RunsPage struct {
	Runs []budget.Run `json:"items"`
	Next string       `json:"next,omitempty"`
}

// RunQuery names a run by tenant ("" is default) and root or path.
type RunQuery struct {
	Tenant  string `json:"tenant,omitempty"`
	Run     string `json:"run"`
	Charges bool   `json:"charges,omitempty"` // with what it was charged, and when
}

// Hold is a charge whose attempt has not ended.
type Hold struct {
	Call  string    `json:"call"`
	Tool  string    `json:"tool"`
	Path  string    `json:"path"`
	Epoch uint64    `json:"epoch"` // of the process that holds it
	Until time.Time `json:"until"`
}

// Charge is one attempt that a run has paid for.
type Charge struct {
	At   time.Time `json:"at"`
	Call string    `json:"call"`
	Path string    `json:"path"`
}

// RunDetail is one run: its accounts and holds.
type RunDetail struct {
	budget.Run
	Holds   []Hold   `json:"holds"`
	Charges []Charge `json:"charges,omitempty"` // oldest first; of calls that are still kept, and of many the newest
}

// Bounds of what is read to tell a run's charges: it is asked again and again while
// somebody looks, and the answer has to fit a message.
const (
	mostRecordsRead  = 10_000
	mostChargesBytes = 400 << 10
)

func (s *Server) runsList(_ context.Context, q RunsQuery, _ string) (RunsPage, error) {
	if q.State != "" && !slices.Contains(RunStates, q.State) {
		return RunsPage{}, bad("%q is no state of a run; the states are %v", q.State, RunStates)
	}
	if q.Sort != "" && !slices.Contains(RunSorts, q.Sort) {
		return RunsPage{}, bad("cannot sort runs by %q; the orders are %v", q.Sort, RunSorts)
	}
	after, err := readPlace(q.After)
	if err != nil {
		return RunsPage{}, err
	}
	p, now := RunsPage{Runs: []budget.Run{}}, time.Now()
	err = s.cfg.Ledger.Runs(func(r *budget.Run) bool {
		if q.match(r, now) && (q.After == "" || q.place(r).compare(after) > 0) {
			p.Runs = append(p.Runs, *r)
		}
		return true
	})
	slices.SortFunc(p.Runs, func(a, b budget.Run) int { return q.place(&a).compare(q.place(&b)) })
	if limit := cmp.Or(q.Limit, 50); len(p.Runs) > limit {
		p.Runs = p.Runs[:limit]
		p.Next = q.place(&p.Runs[limit-1]).String()
	}
	return p, err
}

func (q RunsQuery) match(r *budget.Run, now time.Time) bool {
	if q.Tenant != "" && q.Tenant != r.Tenant || !strings.HasPrefix(r.Root, q.Run) {
		return false
	}
	state, _ := RunState(r, now)
	return q.State == "" || q.State == state
}

// place is where a run stands in an order, which makes it the list's cursor.
type place struct {
	key          int64
	tenant, root string
}

func (q RunsQuery) place(r *budget.Run) place {
	p := place{-r.Used.UnixNano(), r.Tenant, r.Root}
	if q.Sort == "left" {
		root := r.Accounts[r.Root]
		p.key = int64(root.Limits.Attempts - root.Attempts)
	}
	return p
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.key, o.key), cmp.Compare(p.tenant, o.tenant), cmp.Compare(p.root, o.root))
}

func (p place) String() string { return fmt.Sprintf("%d.%s.%s", p.key, p.tenant, p.root) }

func readPlace(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	parts := strings.SplitN(cursor, ".", 3)
	key, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil || len(parts) != 3 {
		return place{}, bad("%q is not the cursor of a list of runs; use the one that the page before has given", cursor)
	}
	return place{key, parts[1], parts[2]}, nil
}

func (s *Server) runShow(_ context.Context, q RunQuery, _ string) (RunDetail, error) {
	run, err := s.cfg.Ledger.Run(tenant(q.Tenant), schemas.Root(q.Run))
	if err != nil {
		return RunDetail{}, err // it names the run
	}
	d := RunDetail{Run: *run, Holds: []Hold{}}
	s.cfg.Ledger.Running(func(r *dedupe.Record) bool {
		if r.Tenant == run.Tenant && schemas.Root(r.Run) == run.Root {
			d.Holds = append(d.Holds, Hold{Call: r.Call, Tool: r.Tool, Path: r.Run, Epoch: r.Epoch, Until: r.Lease})
		}
		return true
	})
	if q.Charges {
		d.Charges, err = s.charges(run)
	}
	return d, err
}

// charges reads from the calls' histories what a run has paid for. An attempt was
// charged when it began, to whoever paid for its generation.
func (s *Server) charges(run *budget.Run) ([]Charge, error) {
	var all []Charge
	since := run.Started.Add(-time.Minute) // by the server's clock; what is older was paid by one of the same name that is forgotten
	live := map[string]bool{}              // one that settles while this reads may come again
	seen, size := 0, 0
	err := s.cfg.Ledger.Records(0, func(seq uint64, r *dedupe.Record) bool {
		seen++
		if seq == math.MaxUint64 {
			live[r.Call] = true
		} else if live[r.Call] {
			return seen < mostRecordsRead
		}
		for _, a := range r.Attempts {
			if path, _ := r.PaidBy(a.Generation); r.Tenant == run.Tenant && schemas.Root(path) == run.Root && a.Started.After(since) {
				all = append(all, Charge{At: a.Started, Call: r.Call, Path: path})
				size += 100 + len(path)
			}
		}
		return seen < mostRecordsRead && size < mostChargesBytes
	})
	slices.SortFunc(all, func(a, b Charge) int { return a.At.Compare(b.At) })
	return all, err
}
