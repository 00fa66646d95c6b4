package metrics

import (
	"time"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// What the ledger knew of a submission.
const (
	dedupeNew      = "new"
	dedupeRepeated = "repeated" // the stored outcome was given again
	dedupeAttached = "attached" // the call was under way
	dedupeConflict = "conflict" // the key was used with other arguments
)

// Decided implements [dispatcher.Observer].
func (m *Metrics) Decided(s dispatcher.Sighting) {
	tool, lane := within(m.tools, s.Tool), lane(s.Lane)
	if s.Verdict != nil {
		m.attempt(tool, s)
	} else {
		m.delivery(lane, s)
	}
	if s.Letter != "" {
		m.letters.WithLabelValues(tool, s.Letter).Inc()
	}
	switch s.Decision.Action {
	case gate.Settle:
		m.settled(lane, tool, s)
	case gate.Refuse:
		m.outcomes.WithLabelValues(lane, tool, string(schemas.Rejected)).Inc()
	}
}

// delivery counts what was decided before an attempt.
func (m *Metrics) delivery(lane string, s dispatcher.Sighting) {
	m.stripped.Add(float64(s.Stripped))
	if s.Fell {
		m.fallen.Inc()
	}
	switch d := s.Decision; d.Action {
	case gate.Nak, gate.Defer:
		m.returned.WithLabelValues(d.Why).Inc()
	case gate.Answer:
		m.known(s, dedupeRepeated)
	case gate.Attach:
		m.known(s, dedupeAttached)
	case gate.Refuse:
		if d.Code == schemas.CodeKeyConflict {
			m.known(s, dedupeConflict)
		}
	case gate.Settle:
		if s.Record.Tries == 0 {
			m.known(s, dedupeNew)
		}
	case gate.Run:
		m.started(lane, s)
	}
}

// known counts a submission. A redelivered retry asks for nothing.
func (m *Metrics) known(s dispatcher.Sighting, result string) {
	if s.Submitted {
		m.dedupe.WithLabelValues(result).Inc()
	}
}

// started counts an attempt that begins.
func (m *Metrics) started(lane string, s dispatcher.Sighting) {
	r := s.Record
	at := r.Attempts[len(r.Attempts)-1]
	switch {
	case r.Tries == 1 && s.Submitted:
		m.known(s, dedupeNew)
		m.queueWait.WithLabelValues(lane).Observe(seconds(at.Started.Sub(r.Published)))
	case r.Tries > 1 && !r.Due.IsZero():
		m.lateness.Observe(seconds(at.Started.Sub(r.Due)))
	}
}

// attempt counts one that has ended.
func (m *Metrics) attempt(tool string, s dispatcher.Sighting) {
	v := s.Verdict
	class := v.Class.String()
	if v.OK() {
		class = "ok"
	}
	m.attempts.WithLabelValues(tool, class).Inc()
	if v.StopReason != "" {
		m.stops.WithLabelValues(tool, string(v.StopReason)).Inc()
	}
	if s.Decision.Owes || s.Decision.Code == schemas.CodeQuotaEmpty {
		m.quota.WithLabelValues(within(m.dependencies, s.Record.Terms.Dependency)).Inc()
	}
	last, before := ended(s.Record)
	if last == nil {
		return
	}
	if v.Code != schemas.CodeCrashed { // how long the process was dead says nothing about the tool
		m.attemptTime.WithLabelValues(tool).Observe(seconds(last.Ended.Sub(last.Started)))
	}
	if before == nil || last.Reconcile || before.Generation != last.Generation {
		return
	}
	result := "failed"
	if v.OK() {
		result = "succeeded"
	}
	m.retries.WithLabelValues(tool, m.code(tool, before.Code), result).Inc()
}

// ended returns the attempt that has just ended and the one before it. A hook that is
// about to be asked stands behind them already.
func ended(r *dedupe.Record) (last, before *schemas.Attempt) {
	for i := len(r.Attempts) - 1; i >= 0; i-- {
		switch {
		case r.Attempts[i].Ended.IsZero():
		case last == nil:
			last = &r.Attempts[i]
		default:
			return last, &r.Attempts[i]
		}
	}
	return last, nil
}

// settled counts a terminal outcome.
func (m *Metrics) settled(lane, tool string, s dispatcher.Sighting) {
	r := s.Record
	m.outcomes.WithLabelValues(lane, tool, string(s.Decision.Status)).Inc()
	m.callAttempts.WithLabelValues(tool).Observe(float64(r.Tries))
	m.callTime.WithLabelValues(lane, tool).Observe(seconds(r.Settled.Sub(r.Published)))
	if s.Decision.Status == schemas.Exhausted {
		m.exhausted.WithLabelValues(tool, s.Decision.Why).Inc()
	}
}

// codesKept bounds the codes of one tool: its own are declared, but HTTP statuses,
// exit codes and service errors are whatever it sends.
const codesKept = 40

// code is a failure's code as a label; what has not the form of one is a text.
func (m *Metrics) code(tool, code string) string {
	if !formed(code) {
		return Other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.codes[tool]
	if seen == nil {
		seen = map[string]bool{}
		m.codes[tool] = seen
	}
	if !seen[code] && len(seen) >= codesKept {
		return Other
	}
	seen[code] = true
	return code
}

// formed reports whether a code is a name such as HTTP_503.
func formed(code string) bool {
	for i := range len(code) {
		switch c := code[i]; {
		case c >= 'A' && c <= 'Z', i > 0 && (c == '_' || c >= '0' && c <= '9'):
		default:
			return false
		}
	}
	return code != "" && len(code) <= 64
}

// within is a name if it is one of the known ones.
func within(known map[string]bool, name string) string {
	if known[name] {
		return name
	}
	return Other
}

func lane(l schemas.Lane) string {
	if l == schemas.Calls || l == schemas.Jobs {
		return string(l)
	}
	return Other
}

// seconds of a time that clocks may have made negative.
func seconds(d time.Duration) float64 { return max(0, d).Seconds() }
