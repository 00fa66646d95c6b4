package budget_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tollgate/budget"
)

var (
	start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	most  = budget.Maxima{Attempts: 5, SideEffects: 3, Elapsed: time.Minute, Accounts: 8}
)

func open(t testing.TB, r *budget.Run, path string, n budget.Named) {
	t.Helper()
	if err := r.Open(path, n, most, start); err != nil {
		t.Fatal(err)
	}
}

func ptr[T any](v T) *T { return &v }

func TestPaths(t *testing.T) {
	if diff := cmp.Diff([]string{"a", "a/b", "a/b/c"}, budget.Paths("a/b/c")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a"}, budget.Paths("a")); diff != "" {
		t.Error(diff)
	}
}

// The first naming may lower, however late; none raises or goes below what is spent,
// and a second one changes nothing.
func TestNaming(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spent int
		named []int
		want  int
	}{
		{"nobody names: the policy", 0, nil, 5},
		{"lower", 0, []int{3}, 3},
		{"above the policy", 0, []int{50}, 5},
		{"named once", 0, []int{4, 2}, 4},
		{"never raised", 0, []int{2, 4}, 2},
		{"not below what is spent", 3, []int{1}, 3},
		{"nothing at all", 0, []int{0}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := budget.New("default", "r", start)
			open(t, r, "r", budget.Named{})
			for range tc.spent {
				r.Charge("r", true)
			}
			for _, n := range tc.named {
				open(t, r, "r", budget.Named{Attempts: &n, Deadline: ptr(start.Add(time.Duration(n) * 10 * time.Second))})
			}
			a := r.Accounts["r"]
			if a.Limits.Attempts != tc.want {
				t.Errorf("limit %d, want %d", a.Limits.Attempts, tc.want)
			}
			if a.Named.Attempts != (len(tc.named) > 0) {
				t.Errorf("named is %+v", a.Named)
			}
			if at := a.Limits.Deadline; at.After(start.Add(time.Minute)) {
				t.Errorf("deadline %v is beyond the policy's", at)
			}
		})
	}
}

// A message names limits of its own path only: the parent keeps its own.
// An agent sends the same header with every call; it must not undo what an operator
// has granted meanwhile.
func TestAGrantOutlivesTheNextNaming(t *testing.T) {
	r := budget.New("default", "r", start)
	open(t, r, "r", budget.Named{Attempts: ptr(1), SideEffects: ptr(1)})
	r.Charge("r", true)
	r.Grant("r", budget.Grant{Attempts: 2, SideEffects: 1})
	open(t, r, "r", budget.Named{Attempts: ptr(1), SideEffects: ptr(1)})
	if no := r.Check("r", true); no.Dimension != 0 {
		t.Errorf("refused for %s after the grant", no.Dimension)
	}
}

func TestNamingAChildLeavesTheParent(t *testing.T) {
	r := budget.New("default", "r", start)
	open(t, r, "r/c", budget.Named{Attempts: ptr(1), SideEffects: ptr(0), Deadline: ptr(start.Add(time.Second))})
	parent, child := r.Accounts["r"].Limits, r.Accounts["r/c"].Limits
	if parent != (budget.Limits{Attempts: 5, SideEffects: 3, Deadline: start.Add(time.Minute)}) {
		t.Errorf("parent %+v", parent)
	}
	if child != (budget.Limits{Attempts: 1, SideEffects: 0, Deadline: start.Add(time.Second)}) {
		t.Errorf("child %+v", child)
	}
	if at, scope := r.Deadline("r/c"); !at.Equal(start.Add(time.Second)) || scope != "r/c" {
		t.Errorf("deadline %v of %q", at, scope)
	}
	if at, scope := r.Deadline("r"); !at.Equal(start.Add(time.Minute)) || scope != "r" {
		t.Errorf("the parent's deadline %v of %q", at, scope)
	}
}

// I9: one exhausted dimension blocks everything charged to it and nothing else.
func TestExhaustedDimensions(t *testing.T) {
	r := budget.New("default", "r", start)
	open(t, r, "r/a", budget.Named{SideEffects: ptr(1)})
	open(t, r, "r/b", budget.Named{})
	if no := r.Charge("r/a", true); no.Dimension != 0 {
		t.Fatalf("refused %v", no)
	}
	if no := r.Charge("r/a", true); no != (budget.Refusal{Dimension: budget.SideEffects, Scope: "r/a"}) {
		t.Errorf("second write: %v", no)
	}
	if no := r.Charge("r/a", false); no.Dimension != 0 {
		t.Errorf("a read was refused for want of side effects: %v", no)
	}
	for range 3 {
		if no := r.Charge("r/b", false); no.Dimension != 0 {
			t.Fatalf("refused %v", no)
		}
	}
	for _, path := range []string{"r", "r/a", "r/b", "r/new"} {
		if no := r.Charge(path, false); no != (budget.Refusal{Dimension: budget.Attempts, Scope: "r"}) {
			t.Errorf("%s after the root's five attempts: %v", path, no)
		}
	}
}

func TestRefundReturnsTheSideEffectOnly(t *testing.T) {
	r := budget.New("default", "r", start)
	open(t, r, "r/a", budget.Named{})
	r.Charge("r/a", true)
	r.Refund("r/a")
	r.Refund("r/a") // once too often must not make credit
	for _, p := range []string{"r", "r/a"} {
		if a := r.Accounts[p]; a.Attempts != 1 || a.Effects != 0 {
			t.Errorf("%s: %d attempts, %d side effects; want 1 and 0", p, a.Attempts, a.Effects)
		}
	}
}

func TestTooManyAccounts(t *testing.T) {
	r := budget.New("default", "r", start)
	m := most
	m.Accounts = 3
	if err := r.Open("r/a/b", budget.Named{}, m, start); err != nil {
		t.Fatal(err)
	}
	if err := r.Open("r/c", budget.Named{}, m, start); !errors.Is(err, budget.ErrTooManyAccounts) {
		t.Errorf("a fourth account: %v", err)
	}
	if err := r.Open("r/a/b", budget.Named{Attempts: ptr(1)}, m, start); err != nil {
		t.Errorf("an account that exists: %v", err)
	}
}

// Cancelling covers everything below, whenever it is opened, and nothing beside.
func TestCancel(t *testing.T) {
	r := budget.New("default", "r", start)
	open(t, r, "r/a/x", budget.Named{})
	open(t, r, "r/ab", budget.Named{})
	r.Cancel("r/a", "no more", start)
	open(t, r, "r/a/later", budget.Named{})
	for path, want := range map[string]bool{"r": false, "r/a": true, "r/a/x": true, "r/a/later": true, "r/ab": false, "r/b": false} {
		if r.Cancelled(path) != want {
			t.Errorf("%s: cancelled is %t", path, !want)
		}
	}
	if a := r.Accounts["r/a"]; a.Reason != "no more" {
		t.Errorf("reason %q", a.Reason)
	}
}

// A run cancelled before anybody knew it is remembered, and is one account with
// the policy's limits once a message opens it.
func TestCancelUnknownRun(t *testing.T) {
	r := budget.New("default", "r", start)
	r.Cancel("r", "stop", start)
	open(t, r, "r/a", budget.Named{})
	if !r.Cancelled("r/a") {
		t.Error("forgotten")
	}
	if got := r.Accounts["r"].Limits; got != (budget.Limits{Attempts: 5, SideEffects: 3, Deadline: start.Add(time.Minute)}) {
		t.Errorf("limits %+v: a refusal would name the budget and not the cancellation", got)
	}
}

func TestGrant(t *testing.T) {
	r := budget.New("default", "r", start)
	open(t, r, "r", budget.Named{Attempts: ptr(1)})
	r.Charge("r", false)
	g := budget.Grant{Attempts: 2, SideEffects: 1, Elapsed: time.Hour, By: "ann", Why: "incident"}
	if r.Grant("other", g) || !r.Grant("r", g) {
		t.Fatal("granted to an account that is not there, or not to the one that is")
	}
	a := r.Accounts["r"]
	if a.Limits != (budget.Limits{Attempts: 3, SideEffects: 4, Deadline: start.Add(time.Minute + time.Hour)}) || a.Attempts != 1 || len(a.Grants) != 1 {
		t.Errorf("after the grant: %+v", a)
	}
}

func TestCloneIsDeep(t *testing.T) {
	r := budget.New("default", "r", start)
	open(t, r, "r", budget.Named{})
	r.Grant("r", budget.Grant{Attempts: 1})
	before, c := r.Clone(), r.Clone()
	c.Charge("r", true)
	c.Grant("r", budget.Grant{Attempts: 9})
	c.Cancel("r/x", "", start)
	if diff := cmp.Diff(before, r); diff != "" {
		t.Error(diff)
	}
}

// I3: whatever is opened, named, charged and refunded in whatever order, no account
// is charged beyond its limit, a charge debits the whole path or nothing, a limit
// never rises, and a parent has spent at least what its children have.
func TestI3SpentNeverExceedsLimit(t *testing.T) {
	paths := []string{"r", "r/a", "r/b", "r/a/x", "r/a/y"}
	rapid.Check(t, func(t *rapid.T) {
		r := budget.New("default", "r", start)
		charged := map[string]int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			path, write := rapid.SampledFrom(paths).Draw(t, "path"), rapid.Bool().Draw(t, "write")
			before := r.Clone()
			switch rapid.SampledFrom([]string{"open", "charge", "charge", "refund"}).Draw(t, "step") {
			case "open":
				n := budget.Named{}
				if rapid.Bool().Draw(t, "named") {
					n = budget.Named{Attempts: ptr(rapid.IntRange(0, 9).Draw(t, "attempts")), SideEffects: ptr(rapid.IntRange(0, 9).Draw(t, "effects"))}
				}
				if err := r.Open(path, n, most, start); err != nil {
					t.Fatal(err)
				}
			case "charge":
				if err := r.Open(path, budget.Named{}, most, start); err != nil {
					t.Fatal(err)
				}
				before = r.Clone()
				no := r.Charge(path, write)
				allOrNone(t, before, r, path, write, no)
				if no.Dimension == 0 && write {
					charged[path]++
				}
			case "refund":
				if charged[path] > 0 {
					charged[path]--
					r.Refund(path)
				}
			}
			invariants(t, before, r)
		}
	})
}

func allOrNone(t *rapid.T, before, after *budget.Run, path string, write bool, no budget.Refusal) {
	if no.Dimension != 0 {
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("a refused charge changed something:\n%s", diff)
		}
		return
	}
	for p, a := range after.Accounts {
		attempts, effects := 0, 0
		if slices.Contains(budget.Paths(path), p) {
			attempts = 1
			if write {
				effects = 1
			}
		}
		if b := before.Accounts[p]; a.Attempts != b.Attempts+attempts || a.Effects != b.Effects+effects {
			t.Fatalf("charging %s (write %t): %s went from %d/%d to %d/%d", path, write, p, b.Attempts, b.Effects, a.Attempts, a.Effects)
		}
	}
}

func invariants(t *rapid.T, before, after *budget.Run) {
	children := map[string][2]int{}
	for p, a := range after.Accounts {
		if a.Attempts > a.Limits.Attempts || a.Effects > a.Limits.SideEffects || a.Effects < 0 {
			t.Fatalf("%s: %d of %d attempts, %d of %d side effects", p, a.Attempts, a.Limits.Attempts, a.Effects, a.Limits.SideEffects)
		}
		if b, ok := before.Accounts[p]; ok && (a.Limits.Attempts > b.Limits.Attempts || a.Limits.SideEffects > b.Limits.SideEffects) {
			t.Fatalf("%s: limits rose from %+v to %+v", p, b.Limits, a.Limits)
		}
		if up := budget.Paths(p); len(up) > 1 {
			sum := children[up[len(up)-2]]
			children[up[len(up)-2]] = [2]int{sum[0] + a.Attempts, sum[1] + a.Effects}
		}
	}
	for p, sum := range children {
		if a := after.Accounts[p]; a.Attempts < sum[0] || a.Effects < sum[1] {
			t.Fatalf("%s spent %d/%d, its children %v: a child had an allowance of its own", p, a.Attempts, a.Effects, sum)
		}
	}
}
