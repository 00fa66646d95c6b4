package dedupe_test

import (
	"testing"
	"time"

	"tollgate/dedupe"
	"tollgate/schemas"
)

var states = []dedupe.State{0, dedupe.InFlight, dedupe.Reconciling, dedupe.Waiting, dedupe.Done, dedupe.Dead, dedupe.Cancelled}

var events = []dedupe.Event{dedupe.Claim, dedupe.StartReconcile, dedupe.Retry, dedupe.Settle, dedupe.Bury, dedupe.Cancel, dedupe.Reopen}

// The whole machine, state × event, in the order of the two lists above.
func TestStateMachine(t *testing.T) {
	const no = dedupe.State(0)
	table := [][]dedupe.State{
		/* none        */ {dedupe.InFlight, no, no, dedupe.Done, dedupe.Dead, dedupe.Cancelled, no},
		/* in_flight   */ {no, dedupe.Reconciling, dedupe.Waiting, dedupe.Done, dedupe.Dead, dedupe.Cancelled, no},
		/* reconciling */ {no, no, no, dedupe.Done, dedupe.Dead, dedupe.Cancelled, no},
		/* waiting     */ {dedupe.InFlight, no, no, dedupe.Done, dedupe.Dead, dedupe.Cancelled, no},
		/* done        */ {dedupe.InFlight, no, no, dedupe.Done, dedupe.Dead, dedupe.Cancelled, dedupe.Waiting},
		/* dead        */ {dedupe.InFlight, no, no, dedupe.Done, dedupe.Dead, dedupe.Cancelled, dedupe.Waiting},
		/* cancelled   */ {no, no, no, no, no, no, dedupe.Waiting},
	}
	for i, s := range states {
		for j, e := range events {
			want := table[i][j]
			got, ok := s.Next(e)
			if got != want || ok != (want != no) {
				t.Errorf("%s × %s: %s, %v, want %s", s, e, got, ok, want)
			}
		}
		if _, ok := s.Next(0); ok {
			t.Errorf("%s: no event at all is allowed", s)
		}
	}
}

func TestStateLabels(t *testing.T) {
	for s, want := range map[dedupe.State]struct {
		label             string
		terminal, running bool
	}{
		dedupe.InFlight: {"in_flight", false, true}, dedupe.Reconciling: {"reconciling", false, true}, dedupe.Waiting: {"waiting", false, false},
		dedupe.Done: {"done", true, false}, dedupe.Dead: {"dead", true, false}, dedupe.Cancelled: {"cancelled", true, false},
	} {
		if s.String() != want.label || s.Terminal() != want.terminal || s.Running() != want.running {
			t.Errorf("%s: terminal %v, running %v, want %+v", s, s.Terminal(), s.Running(), want)
		}
	}
	for s, label := range map[dedupe.Slot]string{0: "", dedupe.SlotSchedule: "schedule", dedupe.SlotWake: "wake", dedupe.SlotLetter: "letter"} {
		if s.String() != label {
			t.Errorf("slot %q, want %q", s, label)
		}
	}
	for i, label := range []string{"claim", "start_reconcile", "retry", "settle", "bury", "cancel", "reopen"} {
		if events[i].String() != label {
			t.Errorf("event %q, want %q", events[i], label)
		}
	}
}

// A write is unsafe when it must never be repeated, or when its downstream key
// would be older than 0.9 × key_retention at the next attempt.
func TestUnsafeAt(t *testing.T) {
	first := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	limit := first.Add(day * 9 / 10)
	for name, c := range map[string]struct {
		effect    dedupe.Effect
		safety    dedupe.Safety
		at, first time.Time
		want      bool
	}{
		"read":                         {dedupe.Read, "", limit.Add(day), first, false},
		"read whatever its safety":     {dedupe.Read, dedupe.Never, limit.Add(day), first, false},
		"never":                        {dedupe.Write, dedupe.Never, first, first, true},
		"never, not yet attempted":     {dedupe.Write, dedupe.Never, first, time.Time{}, true},
		"idempotent":                   {dedupe.Write, dedupe.Idempotent, limit.Add(99 * day), first, false},
		"key, fresh":                   {dedupe.Write, dedupe.IdempotencyKey, first, first, false},
		"key, not yet used":            {dedupe.Write, dedupe.IdempotencyKey, limit.Add(day), time.Time{}, false},
		"key, at the limit":            {dedupe.Write, dedupe.IdempotencyKey, limit, first, false},
		"key, past the limit":          {dedupe.Write, dedupe.IdempotencyKey, limit.Add(1), first, true},
		"no safety declared":           {dedupe.Write, "", first, first, true},
		"safety of a later version":    {dedupe.Write, "sometimes", first, first, true},
		"effect not known is a write":  {"", dedupe.Never, first, first, true},
		"effect not known, idempotent": {"", dedupe.Idempotent, first, first, false},
	} {
		terms := dedupe.Terms{Effect: c.effect, Safety: c.safety, KeyRetention: day}
		if got := terms.UnsafeAt(c.at, c.first); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRecordCloneAndRef(t *testing.T) {
	r := &dedupe.Record{Call: "c", Tenant: "t", Root: "r1", Run: "r2/child", Generation: 3, Attempts: make([]schemas.Attempt, 1, 8)}
	c := r.Clone()
	c.Attempts = append(c.Attempts, schemas.Attempt{N: 2})
	c.Attempts[0].N, c.Run = 9, "other"
	if r.Attempts[0].N != 0 || len(r.Attempts) != 1 || r.Run != "r2/child" {
		t.Errorf("changing a clone changed the record: %+v", r)
	}
	if want := (dedupe.Ref{Tenant: "t", Root: "r2", Call: "c"}); r.Ref() != want {
		t.Errorf("ref %+v, want the payer's %+v", r.Ref(), want)
	}
	if r.LetterID() != "c.3" {
		t.Errorf("letter ID %s", r.LetterID())
	}
}
