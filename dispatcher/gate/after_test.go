package gate_test

import (
	"slices"
	"testing"

	"tollgate/budget"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

type after = gate.AfterFacts

var behind = []dim[after]{
	{"class", []string{"success", "transient", "permanent", "unclassified"}, func(f *after, i int) { f.Class, f.OK = classify.Class(i), i == 0 }},
	{"phase", []string{"not_sent", "answered", "no_answer"}, func(f *after, i int) { f.Phase = classify.Phase(i + 1) }},
	{"for", []string{"operator", "model", "repair"}, func(f *after, i int) { f.For = classify.For(i) }},
	{"budget", dimensions, func(f *after, i int) { f.Budget = refusals[i] }},
	{"fit", fits, func(f *after, i int) { f.Fit = gate.Fit(i) }},
	yes("stop_reason", func(f *after, v bool) { f.Stop = v }),
	yes("poison", func(f *after, v bool) { f.Poison = v }),
	yes("unsafe", func(f *after, v bool) { f.Unsafe = v }),
	yes("can_reconcile", func(f *after, v bool) { f.CanReconcile = v }),
	yes("reconciled", func(f *after, v bool) { f.Reconciled = v }),
	yes("ambiguous", func(f *after, v bool) { f.Ambiguous = v }),
	yes("cancelled", func(f *after, v bool) { f.Cancelled = v }),
	yes("attempts_left", func(f *after, v bool) { f.AttemptsLeft = v }),
	yes("repairs_left", func(f *after, v bool) { f.RepairsLeft = v }),
	yes("wait_too_long", func(f *after, v bool) { f.WaitTooLong = v }),
	yes("quota_empty", func(f *after, v bool) { f.QuotaEmpty = v }),
	yes("job", func(f *after, v bool) { f.Job = v }),
}

// afterRules are what must hold for every decision after an attempt.
var afterRules = []struct {
	name string
	ok   func(f after, d gate.Decision) bool
}{
	{"an action of an attempt", func(f after, d gate.Decision) bool {
		return slices.Contains([]gate.Action{gate.Settle, gate.Retry, gate.Reconcile}, d.Action) && d.Why != ""
	}},
	{"a success succeeds, whatever else is true, and nothing else does", func(f after, d gate.Decision) bool { return f.OK == (d.Status == schemas.Succeeded) }},
	{"I8: a permanent or unclassified failure is never retried", func(f after, d gate.Decision) bool {
		return d.Action != gate.Retry || f.Class == classify.Transient
	}},
	{"a stop reason stops, whatever the class", func(f after, d gate.Decision) bool { return !f.Stop || d.Action == gate.Settle }},
	{"I2: an unsafe call is retried only when it provably never left", func(f after, d gate.Decision) bool {
		return d.Action != gate.Retry || !f.Unsafe || f.Phase == classify.NotSent
	}},
	{"I3 I5 I9: a retry is affordable and fits", func(f after, d gate.Decision) bool {
		return d.Action != gate.Retry || f.AttemptsLeft && f.Budget.Dimension == 0 && f.Fit == gate.Fits && !f.Cancelled && !f.Poison
	}},
	{"the hook is asked only about an unsafe call without an answer, and once", func(f after, d gate.Decision) bool {
		return d.Action != gate.Reconcile || f.Unsafe && f.Phase == classify.NoAnswer && f.CanReconcile && !f.Reconciled
	}},
	{"a hook that could not say ends in an unknown outcome", func(f after, d gate.Decision) bool {
		return f.OK || !f.Reconciled || d.Status == schemas.UnknownOutcome
	}},
	{"I14: an ambiguous call ends where somebody looks", func(f after, d gate.Decision) bool {
		return !f.Ambiguous || d.Action != gate.Settle ||
			slices.Contains([]schemas.Status{schemas.Succeeded, schemas.UnknownOutcome, schemas.Exhausted, schemas.Failed}, d.Status)
	}},
	{"a stated wait above the limit is waited for by jobs only", func(f after, d gate.Decision) bool {
		return d.Action != gate.Retry || !f.WaitTooLong || f.Job
	}},
	{"without a token only a job is retried, and owes it", func(f after, d gate.Decision) bool {
		return d.Owes == (d.Action == gate.Retry && f.QuotaEmpty) && (!d.Owes || f.Job)
	}},
	{"unavailable, and only that, frees its key, and is a call's", func(f after, d gate.Decision) bool {
		return d.Frees == (d.Status == schemas.Unavailable) && (!d.Frees || !f.Job)
	}},
	{"the model is asked for other arguments only while it may be", func(f after, d gate.Decision) bool { return d.Status != schemas.Repair || f.RepairsLeft }},
	{"settled says how", func(f after, d gate.Decision) bool { return (d.Action == gate.Settle) == (d.Status != "") }},
	{"exhausted says what is used up", exhaustedSays(func(f after) (bool, budget.Refusal, gate.Fit) { return f.AttemptsLeft, f.Budget, f.Fit })},
}

// The whole fact space behind an attempt, against every rule.
func TestAfter(t *testing.T) {
	broken := map[string]bool{}
	all := table{}
	walk(all, after{}, behind, gate.After, func(f after, d gate.Decision) {
		for _, r := range afterRules {
			if !r.ok(f, d) && !broken[r.name] {
				broken[r.name] = true
				t.Errorf("%s:\n%+v\n%+v", r.name, f, d)
			}
		}
	})
	golden(t, "after.golden", text(all, behind))
}

// A write is ambiguous from an attempt without an answer on, until one succeeds or
// is answered with anything but a transient failure. A read never is.
func TestAmbiguous(t *testing.T) {
	for _, was := range []bool{false, true} {
		for _, tc := range []struct {
			name string
			v    classify.Verdict
			want bool
		}{
			{"success", classify.Success(nil, nil), false},
			{"no answer", classify.Lost("X", ""), true},
			{"not sent", classify.Unsent("X", ""), was},
			{"transient answer", classify.Verdict{Class: classify.Transient, Phase: classify.Answered}, was},
			{"permanent answer", classify.Refused(classify.Answered, "X", ""), false},
			{"unclassified answer", classify.Unknown(classify.Answered, "X", ""), false},
			{"permanent, not sent", classify.Refused(classify.NotSent, "X", ""), was},
			{"unclassified, no answer", classify.Unknown(classify.NoAnswer, "X", ""), true},
		} {
			if got := gate.Ambiguous(was, true, tc.v); got != tc.want {
				t.Errorf("write, ambiguous %t, then %s: %t, want %t", was, tc.name, got, tc.want)
			}
			if gate.Ambiguous(was, false, tc.v) {
				t.Errorf("a read is ambiguous after %s", tc.name)
			}
		}
	}
}
