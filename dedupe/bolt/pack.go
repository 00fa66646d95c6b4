package bolt

import (
	"encoding/hex"
	"slices"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// ownOutcome reports whether the outcome repeats its record, as all do but one
// that is kept as history of an earlier generation or payer.
func ownOutcome(r *dedupe.Record) bool {
	bare, o := *r.Outcome, r.Outcome
	identify(&bare, r)
	same := len(o.Attempts) == 0 || slices.Equal(o.Attempts, r.Attempts)
	return same && bare.Tenant == o.Tenant && bare.Lane == o.Lane && bare.Run == o.Run && bare.Tool == o.Tool &&
		bare.Call == o.Call && bare.Generation == o.Generation && bare.Key == o.Key &&
		bare.Fingerprint == o.Fingerprint && bare.ToolCallID == o.ToolCallID
}

// saysTwice reports whether an outcome's text is its structured result, which is how
// executors give one to a model.
func saysTwice(o *schemas.Outcome) bool {
	return len(o.Structured) > 0 && len(o.Content) == 1 && o.Content[0].Type == "text" && o.Content[0].Text == string(o.Structured)
}

// timing is what the outcome of a record says of its instants, as a rule.
func timing(r *dedupe.Record) schemas.Timing {
	return schemas.Timing{Published: r.Published, Deadline: r.Deadline, Settled: r.Settled}
}

// identify gives an outcome what it shares with its record.
func identify(o *schemas.Outcome, r *dedupe.Record) {
	o.Tenant, o.Lane, o.Run, o.Tool, o.Call = r.Tenant, r.Lane, r.Run, r.Tool, r.Call
	o.Generation, o.Key, o.Fingerprint, o.ToolCallID = r.Generation, r.Key, r.Fingerprint, r.ToolCallID
}

func unpack(call string, s *stored) *dedupe.Record {
	r := s.Record
	r.Call, r.Root, r.DownstreamKey = call, s.Root, s.DownstreamKey
	r.Terms, r.Origin, r.Outcome = dedupe.Terms(s.Terms), schemas.Origin(s.Origin), s.Outcome
	r.Terms.Run = budget.Maxima(s.Maxima)
	if len(s.Sum) > 0 {
		r.Fingerprint = hex.EncodeToString(s.Sum)
	}
	if r.Root == "" {
		r.Root = schemas.Root(r.Run)
	}
	if r.DownstreamKey == "" {
		r.DownstreamKey = call
	}
	for _, a := range s.Attempts {
		r.Attempts = append(r.Attempts, schemas.Attempt(a))
	}
	if s.Own != nil {
		o := schemas.Outcome(*s.Own)
		if s.OwnText {
			o.Content = []schemas.Content{{Type: "text", Text: string(o.Structured)}}
		}
		identify(&o, r)
		if o.Timing == (schemas.Timing{}) {
			o.Timing = timing(r)
		}
		if o.Attempts = []schemas.Attempt{}; s.OwnAttempts {
			o.Attempts = slices.Clone(r.Attempts)
		}
		r.Outcome = &o
	}
	return r
}
