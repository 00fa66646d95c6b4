package cli

import (
	"fmt"
	"strings"
	"time"

	"tollgate/schemas"
)

// printTimeline shows the attempts one by one: when, what came back, what was
// decided then and why, and the wait that followed.
func (s *shell) printTimeline(attempts []schemas.Attempt) {
	if len(attempts) == 0 {
		s.line("ATTEMPTS  none: the tool was never asked")
		return
	}
	s.line("ATTEMPTS")
	for _, a := range attempts {
		name := fmt.Sprintf("#%d", a.N)
		if a.Generation > 0 {
			name += fmt.Sprintf(" (replay %d)", a.Generation)
		}
		if a.Reconcile {
			name += " (reconcile)"
		}
		s.line("  %s  %s  %s", name, s.clock(a.Started), oneLine(result(a)))
		if a.Decision != "" {
			s.line("      → %s", oneLine(a.Decision))
		}
		if w := waits(a); w != "" {
			s.line("      %s", w)
		}
	}
}

// clock is an instant to the millisecond, as attempts are a matter of those.
func (s *shell) clock(t time.Time) string {
	if s.utc {
		return t.UTC().Format("2006-01-02 15:04:05.000Z")
	}
	return t.Local().Format("2006-01-02 15:04:05.000 -07:00")
}

// result is what came back of an attempt, in a few words.
func result(a schemas.Attempt) string {
	if a.Ended.IsZero() {
		return "running"
	}
	words := []string{"+" + brief(a.Ended.Sub(a.Started))}
	switch {
	case a.Code == "" && a.Class == "":
		words = append(words, "ok")
	default:
		for _, w := range []string{a.Code, a.Class, a.Phase} {
			if w != "" {
				words = append(words, w)
			}
		}
	}
	if a.StopReason != "" {
		words = append(words, "stop_reason="+a.StopReason)
	}
	if a.Message != "" {
		words = append(words, "· "+clip(oneLine(a.Message), 100))
	}
	return strings.Join(words, " ")
}

func waits(a schemas.Attempt) string {
	var words []string
	ms := func(what string, n int64) {
		if n > 0 {
			words = append(words, what+" "+brief(time.Duration(n)*time.Millisecond))
		}
	}
	ms("waited before it", a.WaitedMS)
	ms("the tool asked for a wait of", a.RetryAfterMS)
	ms("next attempt after", a.DelayMS)
	return strings.Join(words, ", ")
}
