package verify

import (
	"context"
	"fmt"
	"slices"

	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
)

// recordCheck is one check of one record: the fault it found, or "".
type recordCheck struct {
	name, what string
	concerns   func(*dedupe.Record) bool
	look       func(context.Context, *verifier, *dedupe.Record) (string, error)
}

// recordChecks is every check that begins with a record.
var recordChecks = []recordCheck{
	{"I1", "a call that has ended has one outcome, valid and of its generation; one that has not has none", isCall, alone(oneOutcome)},
	{"I1", "the results stream holds the outcome that the ledger recorded", hasResult, resultStored},
	{"I2", "a call that must not be repeated left the dispatcher at most once a generation", isNever, alone(leftOnce)},
	{"I12", "every dead call has its letter, telling the recorded outcome", isDead, letterStored},
	{"I12", "every waiting call has its schedule or its retry on the way", isWaiting, carrierStored},
	{"I13", "every record stands under the ID of its tenant, run, tool and key", isCall, alone(identified)},
	{"I14", "a write that may have happened ended where somebody looks at it", isAmbiguous, alone(escalated)},
}

// isCall leaves out what an operator noted about a refused message: it is no call.
func isCall(r *dedupe.Record) bool      { return r.Terms.Effect != "" }
func hasResult(r *dedupe.Record) bool   { return isCall(r) && r.State.Terminal() && r.Outcome != nil }
func isDead(r *dedupe.Record) bool      { return r.State == dedupe.Dead && r.Slot == 0 && r.Outcome != nil }
func isWaiting(r *dedupe.Record) bool   { return r.State == dedupe.Waiting && r.Slot == 0 }
func isAmbiguous(r *dedupe.Record) bool { return r.Ambiguous && r.State.Terminal() && r.Terms.Write() }
func isNever(r *dedupe.Record) bool {
	return isCall(r) && r.Terms.Write() && r.Terms.Safety != dedupe.Idempotent && r.Terms.Safety != dedupe.IdempotencyKey
}

// alone makes a check of what needs the record only.
func alone(f func(*dedupe.Record) string) func(context.Context, *verifier, *dedupe.Record) (string, error) {
	return func(_ context.Context, _ *verifier, r *dedupe.Record) (string, error) { return f(r), nil }
}

// endings is what each state's outcome may say.
var endings = map[dedupe.State][]schemas.Status{
	dedupe.Done:      {schemas.Succeeded, schemas.ToolError, schemas.Repair, schemas.Unavailable},
	dedupe.Dead:      {schemas.Failed, schemas.UnknownOutcome, schemas.Exhausted, schemas.ToolError, schemas.Repair, schemas.Unavailable, schemas.Cancelled},
	dedupe.Cancelled: {schemas.Cancelled},
}

func oneOutcome(r *dedupe.Record) string {
	o := r.Outcome
	switch {
	case !r.State.Terminal() && o == nil:
		return ""
	case !r.State.Terminal():
		return fmt.Sprintf("call %s is %s and has an outcome already (%s)", r.Call, r.State, o.ID)
	case o == nil:
		return fmt.Sprintf("call %s is %s without an outcome", r.Call, r.State)
	case o.ID == "" || o.Call != r.Call || o.Generation != r.Generation || o.Fingerprint != r.Fingerprint:
		return fmt.Sprintf("call %s, generation %d, has the outcome %q of call %s, generation %d", r.Call, r.Generation, o.ID, o.Call, o.Generation)
	case !slices.Contains(endings[r.State], o.Status):
		return fmt.Sprintf("call %s is %s with status %q", r.Call, r.State, o.Status)
	case o.IsError == (o.Status == schemas.Succeeded) || o.IsError != (o.Error != nil):
		return fmt.Sprintf("call %s ended %s, and its outcome says otherwise", r.Call, o.Status)
	case r.State == dedupe.Dead && (r.Letter == "" || !slices.Contains(schemas.Reasons, r.LetterReason)):
		return fmt.Sprintf("call %s is dead with letter state %q and reason %q", r.Call, r.Letter, r.LetterReason)
	}
	return ""
}

func identified(r *dedupe.Record) string {
	if id := dedupe.CallID(r.Tenant, r.Root, r.Tool, r.Key); id != r.Call {
		return fmt.Sprintf("record %s belongs under %s (tenant %s, run %s, tool %s, key %s)", r.Call, id, r.Tenant, r.Root, r.Tool, r.Key)
	}
	return ""
}

// leftOnce counts, a generation, the attempts that may have left: all but those
// proven not sent. One that has not ended may have.
func leftOnce(r *dedupe.Record) string {
	left := map[int]int{}
	for _, a := range r.Attempts {
		if a.Reconcile || a.Phase == classify.NotSent.String() {
			continue
		}
		if left[a.Generation]++; left[a.Generation] > 1 {
			return fmt.Sprintf("call %s (%s) must not be repeated and left %d times in generation %d", r.Call, r.Tool, left[a.Generation], a.Generation)
		}
	}
	return ""
}

func escalated(r *dedupe.Record) string {
	o := r.Outcome
	if o == nil || r.State != dedupe.Dead || o.NextAction != schemas.Reconcile && o.NextAction != schemas.Escalate {
		return fmt.Sprintf("call %s (%s) may have had its effect, and is %s without anybody being asked to look", r.Call, r.Tool, r.State)
	}
	return ""
}
