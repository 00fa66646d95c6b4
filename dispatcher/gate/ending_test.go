package gate_test

import (
	"slices"
	"testing"

	"tollgate/budget"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

var statuses = []schemas.Status{
	schemas.Succeeded, schemas.ToolError, schemas.Repair, schemas.Failed, schemas.UnknownOutcome,
	schemas.Exhausted, schemas.Unavailable, schemas.Cancelled,
}

// Which endings leave a letter: of calls, of jobs, and of anything replayed.
func TestLetterReason(t *testing.T) {
	for _, tc := range []struct {
		status              schemas.Status
		code                string
		no                  budget.Dimension
		call, job, replayed string
	}{
		{status: schemas.Succeeded},
		{status: schemas.ToolError, job: "tool_error", replayed: "tool_error"},
		{status: schemas.Repair, job: "repair", replayed: "repair"},
		{status: schemas.Unavailable, job: "unavailable", replayed: "unavailable"},
		{status: schemas.Cancelled, replayed: "cancelled"},
		{status: schemas.Failed, call: "failed", job: "failed", replayed: "failed"},
		{status: schemas.Failed, code: schemas.CodePoison, call: "poison", job: "poison", replayed: "poison"},
		{status: schemas.UnknownOutcome, call: "unknown_outcome", job: "unknown_outcome", replayed: "unknown_outcome"},
		{status: schemas.UnknownOutcome, code: schemas.CodePoison, call: "unknown_outcome", job: "unknown_outcome", replayed: "unknown_outcome"},
		{schemas.Exhausted, schemas.CodeCallAttempts, 0, "exhausted_attempts", "exhausted_attempts", "exhausted_attempts"},
		{schemas.Exhausted, schemas.CodeRunBudget, budget.Attempts, "exhausted_attempts", "exhausted_attempts", "exhausted_attempts"},
		{schemas.Exhausted, schemas.CodeRunBudget, budget.SideEffects, "exhausted_side_effects", "exhausted_side_effects", "exhausted_side_effects"},
		{schemas.Exhausted, schemas.CodeRunBudget, budget.ElapsedTime, "exhausted_elapsed_time", "exhausted_elapsed_time", "exhausted_elapsed_time"},
		{schemas.Exhausted, schemas.CodeCallDeadline, 0, "exhausted_elapsed_time", "exhausted_elapsed_time", "exhausted_elapsed_time"},
		{schemas.Exhausted, schemas.CodeDoesNotFit, 0, "exhausted_elapsed_time", "exhausted_elapsed_time", "exhausted_elapsed_time"},
	} {
		for _, got := range []struct {
			what       string
			job        bool
			generation int
			want       string
		}{{"call", false, 0, tc.call}, {"job", true, 0, tc.job}, {"replayed call", false, 1, tc.replayed}, {"replayed job", true, 2, tc.replayed}} {
			if reason := gate.LetterReason(tc.status, tc.code, tc.no, got.job, got.generation); reason != got.want {
				t.Errorf("%s, %s %s: %q, want %q", got.what, tc.status, tc.code, reason, got.want)
			}
		}
	}
}

// Every replay that does not succeed is a letter again, with a reason of the set.
func TestReplaysThatDoNotSucceedAreLetters(t *testing.T) {
	for _, s := range statuses {
		reason := gate.LetterReason(s, "", 0, false, 1)
		if (reason == "") != (s == schemas.Succeeded) || reason != "" && !slices.Contains(schemas.Reasons, reason) {
			t.Errorf("%s: %q", s, reason)
		}
	}
}

func TestNextAction(t *testing.T) {
	for _, s := range statuses {
		want := map[schemas.Status]schemas.Action{
			schemas.Repair: schemas.RepairArgs, schemas.Failed: schemas.Escalate, schemas.UnknownOutcome: schemas.Reconcile,
		}[s]
		if want == "" {
			want = schemas.Return
		}
		if got := gate.NextAction(s, false); got != want {
			t.Errorf("%s: %s, want %s", s, got, want)
		}
	}
	if got := gate.NextAction(schemas.Exhausted, true); got != schemas.Reconcile {
		t.Errorf("exhausted and ambiguous: %s, want reconcile", got)
	}
}

func TestRefusalReason(t *testing.T) {
	for _, tc := range []struct{ code, call, job string }{
		{schemas.CodeMalformed, "malformed", "malformed"},
		{schemas.CodeTooLarge, "malformed", "malformed"},
		{schemas.CodeDenied, "", "rejected"},
		{schemas.CodeKeyConflict, "", "rejected"},
		{schemas.CodeUnknownTool, "", "rejected"},
	} {
		if got := gate.RefusalReason(tc.code, false); got != tc.call {
			t.Errorf("call, %s: %q, want %q", tc.code, got, tc.call)
		}
		if got := gate.RefusalReason(tc.code, true); got != tc.job {
			t.Errorf("job, %s: %q, want %q", tc.code, got, tc.job)
		}
	}
}
