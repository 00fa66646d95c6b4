package gate_test

import (
	"slices"
	"testing"

	"tollgate/budget"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

type before = gate.BeforeFacts

var (
	refusals   = []budget.Refusal{{}, {Dimension: budget.Attempts}, {Dimension: budget.SideEffects}}
	dimensions = []string{"none", "attempts", "side_effects"}
	fits       = []string{"fits", "call_expired", "run_expired", "does_not_fit"}
)

// front are the facts about the message, its record and its tool.
var front = []dim[before]{
	yes("ledger_down", func(f *before, v bool) { f.LedgerDown = v }),
	yes("too_large", func(f *before, v bool) { f.TooLarge = v }),
	yes("malformed", func(f *before, v bool) { f.Malformed = v }),
	{"known", []string{"unknown", "in_flight", "waiting", "terminal", "released"}, func(f *before, i int) { f.Known = gate.Known(i) }},
	{"source", []string{"submission", "carrier", "stale"}, func(f *before, i int) { f.Source = gate.Source(i) }},
	yes("conflict", func(f *before, v bool) { f.Conflict = v }),
	yes("unpublished", func(f *before, v bool) { f.Unpublished = v }),
	yes("due", func(f *before, v bool) { f.Due = v }),
	yes("tool_known", func(f *before, v bool) { f.ToolKnown = v }),
	yes("tool_gone", func(f *before, v bool) { f.ToolGone = v }),
	yes("tenant_allowed", func(f *before, v bool) { f.TenantAllowed = v }),
	yes("cancelled", func(f *before, v bool) { f.Cancelled = v }),
	yes("ambiguous", func(f *before, v bool) { f.Ambiguous = v }),
	yes("job", func(f *before, v bool) { f.Job = v }),
}

// back are the facts about the call, its budget and its time.
var back = []dim[before]{
	{"known", []string{"unknown", "waiting", "released"}, func(f *before, i int) {
		f.Known = []gate.Known{gate.Unknown, gate.Waiting, gate.Released}[i]
		f.Source = []gate.Source{gate.Submission, gate.Carrier, gate.Submission}[i]
	}},
	yes("forgotten", func(f *before, v bool) { f.Forgotten = v }),
	yes("cancelled", func(f *before, v bool) { f.Cancelled = v }),
	yes("ambiguous", func(f *before, v bool) { f.Ambiguous = v }),
	yes("unsafe", func(f *before, v bool) { f.Unsafe = v }),
	yes("attempts_left", func(f *before, v bool) { f.AttemptsLeft = v }),
	yes("many_accounts", func(f *before, v bool) { f.TooManyAccounts = v }),
	{"budget", dimensions, func(f *before, i int) { f.Budget = refusals[i] }},
	{"fit", fits, func(f *before, i int) { f.Fit = gate.Fit(i) }},
	yes("first_attempt", func(f *before, v bool) { f.FirstAttempt = v }),
	yes("bad_arguments", func(f *before, v bool) { f.BadArguments = v }),
	yes("repairs_left", func(f *before, v bool) { f.RepairsLeft = v }),
	{"hold", []string{"none", "concurrency", "rate", "breaker", "owed_token", "paused"}, func(f *before, i int) { f.Hold = gate.Hold(i) }},
	yes("hold_fits", func(f *before, v bool) { f.HoldFits = v }),
	yes("job", func(f *before, v bool) { f.Job = v }),
}

// beforeRules are what must hold for every decision before a dispatch.
var beforeRules = []struct {
	name string
	ok   func(f before, d gate.Decision) bool
}{
	{"an action of a delivery", func(f before, d gate.Decision) bool {
		return slices.Contains([]gate.Action{gate.Nak, gate.Refuse, gate.Answer, gate.Attach, gate.Defer, gate.Settle, gate.Run}, d.Action) && d.Why != ""
	}},
	{"I3 I5 I9: only what is allowed, paid for and in time runs or waits to run", func(f before, d gate.Decision) bool {
		return d.Action != gate.Run && d.Action != gate.Defer || f.AttemptsLeft && f.Budget.Dimension == 0 && f.Fit == gate.Fits && !f.TooManyAccounts
	}},
	{"only what is known and not cancelled runs or waits to run", func(f before, d gate.Decision) bool {
		return d.Action != gate.Run && d.Action != gate.Defer ||
			f.ToolKnown && (f.TenantAllowed || f.Known == gate.Waiting) && !f.Cancelled && !f.Malformed && !f.TooLarge && !(f.FirstAttempt && f.BadArguments)
	}},
	{"nothing held runs", func(f before, d gate.Decision) bool { return d.Action != gate.Run || f.Hold == gate.NoHold }},
	{"a ledger that cannot commit: the message stays", func(f before, d gate.Decision) bool {
		return f.LedgerDown == (d.Why == "ledger_down") && (!f.LedgerDown || d.Action == gate.Nak)
	}},
	{"I10: a terminal outcome is answered, never decided again", func(f before, d gate.Decision) bool {
		return f.Known != gate.Terminal || slices.Contains([]gate.Action{gate.Nak, gate.Refuse, gate.Answer}, d.Action)
	}},
	{"I2: what is in flight is not dispatched again", func(f before, d gate.Decision) bool {
		return f.Known != gate.InFlight || slices.Contains([]gate.Action{gate.Nak, gate.Refuse, gate.Attach}, d.Action)
	}},
	{"only its carrier, when due, touches a waiting record", func(f before, d gate.Decision) bool {
		return f.Known != gate.Waiting || f.Source == gate.Carrier && f.Due || slices.Contains([]gate.Action{gate.Nak, gate.Refuse, gate.Attach}, d.Action)
	}},
	{"I12: a carrier is never attached or refused: its record would wait for ever", func(f before, d gate.Decision) bool {
		return f.Known != gate.Waiting || f.Source != gate.Carrier || d.Action != gate.Attach && (d.Action != gate.Refuse || f.Conflict || f.Malformed || f.TooLarge)
	}},
	{"only a submission opens a released key again", func(f before, d gate.Decision) bool {
		return f.Known != gate.Released || f.Source == gate.Submission && !f.Unpublished || slices.Contains([]gate.Action{gate.Nak, gate.Refuse, gate.Answer}, d.Action)
	}},
	{"I13: another fingerprint never runs and never hears the stored answer", func(f before, d gate.Decision) bool {
		return f.Known == gate.Unknown || !f.Conflict || d.Action == gate.Nak && f.LedgerDown || d.Action == gate.Refuse
	}},
	{"I12: nothing is acked ahead of what its record owes", func(f before, d gate.Decision) bool {
		return !f.Unpublished || d.Action != gate.Answer && !(d.Action == gate.Attach && f.Known == gate.Waiting)
	}},
	{"I14: an ambiguous call ends where somebody looks", func(f before, d gate.Decision) bool {
		return !f.Ambiguous || d.Action != gate.Settle || slices.Contains([]schemas.Status{schemas.UnknownOutcome, schemas.Exhausted, schemas.Failed}, d.Status)
	}},
	{"an ambiguous write that is unsafe by now does not run", func(f before, d gate.Decision) bool {
		return !f.Ambiguous || !f.Unsafe || d.Action != gate.Run && d.Action != gate.Defer
	}},
	{"what a recovered ledger cannot know does not run", func(f before, d gate.Decision) bool {
		return !f.Forgotten || d.Action != gate.Run && d.Action != gate.Defer
	}},
	{"refused is rejected, settled is not", func(f before, d gate.Decision) bool {
		return (d.Action == gate.Refuse) == (d.Status == schemas.Rejected) && (d.Action == gate.Settle || d.Action == gate.Refuse) == (d.Status != "")
	}},
	{"unavailable, and only that, frees its key, and is a call's", func(f before, d gate.Decision) bool {
		return d.Frees == (d.Status == schemas.Unavailable) && (!d.Frees || !f.Job && !f.HoldFits)
	}},
	{"exhausted says what is used up", exhaustedSays(func(f before) (bool, budget.Refusal, gate.Fit) { return f.AttemptsLeft, f.Budget, f.Fit })},
}

// exhaustedSays checks the code and dimension of exhausted against the facts.
func exhaustedSays[F any](facts func(F) (bool, budget.Refusal, gate.Fit)) func(F, gate.Decision) bool {
	return func(f F, d gate.Decision) bool {
		left, no, fit := facts(f)
		switch {
		case d.Status != schemas.Exhausted:
			return d.Budget == budget.Refusal{}
		case d.Code == schemas.CodeCallAttempts:
			return !left
		case d.Code == schemas.CodeRunBudget && d.Budget.Dimension == budget.ElapsedTime:
			return fit == gate.RunExpired
		case d.Code == schemas.CodeRunBudget:
			return d.Budget == no && no.Dimension != 0
		case d.Code == schemas.CodeCallDeadline:
			return fit == gate.CallExpired
		default:
			return d.Code == schemas.CodeDoesNotFit && fit == gate.DoesNotFit
		}
	}
}

func checkBefore(t *testing.T) func(before, gate.Decision) {
	broken := map[string]bool{}
	return func(f before, d gate.Decision) {
		for _, r := range beforeRules {
			if !r.ok(f, d) && !broken[r.name] {
				broken[r.name] = true
				t.Errorf("%s:\n%+v\n%+v", r.name, f, d)
			}
		}
	}
}

// Every combination of the first facts, with nothing and with everything wrong
// behind them, and every combination of the later facts on each way to reach them.
func TestBefore(t *testing.T) {
	good := before{AttemptsLeft: true, ToolKnown: true, TenantAllowed: true, Due: true}
	bad := before{Unsafe: true, TooManyAccounts: true, Budget: refusals[1], Fit: gate.DoesNotFit, FirstAttempt: true, BadArguments: true, Hold: gate.Paused, Forgotten: true}
	check := checkBefore(t)
	first, second := table{}, table{}
	walk(first, good, front, gate.Before, check)
	golden(t, "before_front.golden", text(first, front))
	walk(table{}, bad, front, gate.Before, check)
	walk(second, good, back, gate.Before, check)
	golden(t, "before_back.golden", text(second, back))
}

// What the first facts decide, the later ones do not change: that is why walking
// them apart covers them together.
func TestBeforeFrontIsDecidedAlone(t *testing.T) {
	final := map[before]gate.Decision{}
	good := before{AttemptsLeft: true}
	walk(table{}, good, front, gate.Before, func(f before, d gate.Decision) {
		if d.Action != gate.Run && d.Why != "cancelled" {
			final[f] = d
		}
	})
	if len(final) < 1000 {
		t.Fatalf("only %d combinations are decided by the first facts", len(final))
	}
	for f, want := range final {
		f.Unsafe, f.TooManyAccounts, f.Budget, f.Fit, f.AttemptsLeft = true, true, refusals[2], gate.CallExpired, false
		f.FirstAttempt, f.BadArguments, f.Hold, f.HoldFits, f.Forgotten = true, true, gate.BreakerOpen, true, true
		if got := gate.Before(f); got != want {
			t.Fatalf("%+v: %+v, want %+v", f, got, want)
		}
	}
}
