package dispatcher

import (
	"time"

	"github.com/rs/zerolog"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
)

// log writes the one line of a decision before an attempt. Arguments and results
// are never logged.
func (d *Dispatcher) log(c *call, a *admission) {
	e := d.cfg.Log.Info()
	if a.decision.Action == gate.Nak || a.decision.Action == gate.Defer {
		e = d.cfg.Log.Debug()
	}
	e = e.Str("run", c.request.Run).Str("tenant", c.Tenant).Str("tool", c.Tool).Str("call", c.id).Str("key", c.request.Key).Str("lane", string(c.Lane))
	e = decided(e, a.decision)
	if r := a.record; r != nil {
		e = e.Int("generation", r.Generation).Int("attempt", r.Tries)
		if n := len(r.Attempts); n > 0 {
			e = e.Int64("waited_ms", r.Attempts[n-1].WaitedMS)
		}
		e = spending(e, a.run, r)
	}
	e.Int("stripped", c.request.Stripped).Msg("before")
}

// logAfter writes the one line of a decision after an attempt.
func (d *Dispatcher) logAfter(r *dedupe.Record, run *budget.Run, dec gate.Decision, v classify.Verdict, tokens float64, breaker string) {
	e := d.cfg.Log.Info().Str("run", r.Run).Str("tenant", r.Tenant).Str("tool", r.Tool).Str("call", r.Call).Str("key", r.Key).Str("lane", string(r.Lane)).
		Int("generation", r.Generation).Int("attempt", r.Tries)
	e = decided(e, dec)
	e = e.Stringer("class", v.Class).Stringer("phase", v.Phase).Str("attempt_code", v.Code).Str("stop_reason", string(v.StopReason)).Bool("reached", v.Reached()).
		Dur("retry_after", v.RetryAfter).Float64("quota_tokens", tokens).Str("breaker", breaker).Str("route", r.LetterReason)
	if dec.Action == gate.Retry {
		e = e.Dur("delay", time.Until(r.Due))
	}
	spending(e, run, r).Msg("after")
}

func decided(e *zerolog.Event, dec gate.Decision) *zerolog.Event {
	return e.Stringer("decision", dec.Action).Str("reason", dec.Why).Str("status", string(dec.Status)).Str("code", dec.Code)
}

func spending(e *zerolog.Event, run *budget.Run, r *dedupe.Record) *zerolog.Event {
	if run == nil {
		return e
	}
	u := usage(run, r.Run, time.Now())
	return e.Int64("attempts_spent", u.Attempts.Used).Int64("attempts_limit", u.Attempts.Limit).
		Int64("side_effects_spent", u.SideEffects.Used).Int64("side_effects_limit", u.SideEffects.Limit).
		Dur("elapsed_left", time.Until(r.Deadline))
}
