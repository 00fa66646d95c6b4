package dispatcher

import (
	"strconv"

	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// Sighting is one decision as an observer sees it. Nothing in it may be changed or kept.
type Sighting struct {
	Lane      schemas.Lane
	Tool      string // as the message names it; it may be in no catalogue
	Decision  gate.Decision
	Record    *dedupe.Record    // as committed or found; nil: there is none
	Verdict   *classify.Verdict // of the attempt that was decided on; nil: there was none
	Submitted bool              // somebody asks for a call, for the first time or again; it is no retry and no replay
	Stripped  int               // headers of ours that an agent had set
	Fell      bool              // the message tells of more spending than the ledger knows
	Letter    string            // the reason of the dead letter this leaves; "" is none
}

// Observer counts what is decided. Decided is called on the path of every call, once
// what it tells is durable, and concurrently: it must not block.
type Observer interface {
	Decided(s Sighting)
}

// unobserved is the observer of a dispatcher that has none.
type unobserved struct{}

func (unobserved) Decided(Sighting) {}

// observe tells of a decision before an attempt.
func (d *Dispatcher) observe(c *call, a *admission, letter string) {
	s := Sighting{Lane: c.Lane, Tool: c.Tool, Decision: a.decision, Record: a.record, Submitted: !c.Retry, Stripped: c.request.Stripped, Fell: c.fell(a), Letter: letter}
	if a.decision.Action == gate.Settle {
		s.Letter = a.record.LetterReason
	}
	d.cfg.Observer.Decided(s)
}

// observeAfter tells of a decision after an attempt.
func (d *Dispatcher) observeAfter(r *dedupe.Record, dec gate.Decision, v *classify.Verdict) {
	d.cfg.Observer.Decided(Sighting{Lane: r.Lane, Tool: r.Tool, Decision: dec, Record: r, Verdict: v, Letter: r.LetterReason})
}

// fell reports whether a retry tells of more attempts of its run than the ledger
// knows. What a run has spent never becomes less, so the ledger has forgotten some:
// it is an older copy. A replay's first carrier is not asked, since another run may pay.
func (c *call) fell(a *admission) bool {
	if !c.Retry || a.record != nil && a.record.Tries == 0 {
		return false
	}
	told, err := strconv.Atoi(c.Header.Get(schemas.HeaderSpentAttempts))
	if err != nil || a.run == nil {
		return false
	}
	known := a.run.Accounts[a.run.Root].Attempts
	if a.decision.Action == gate.Run {
		known-- // charged since the message was written
	}
	return told > known
}
