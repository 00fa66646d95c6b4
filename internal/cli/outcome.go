package cli

import (
	"fmt"
	"strings"

	"tollgate/schemas"
)

// printOutcome puts the result on standard output and a summary on standard error,
// and returns the exit code the outcome stands for.
func (s *shell) printOutcome(o *schemas.Outcome) error {
	if s.json {
		if err := s.printJSON("Outcome", o); err != nil {
			return err
		}
		return outcomeExit(o)
	}
	body := resultText(o)
	if s.outTTY {
		body = safe(body)
	}
	if body != "" && (!o.IsError || o.Status == schemas.ToolError) { // the tool's own words; what the dispatcher says is below
		fmt.Fprintln(s.stdout, body)
	}
	s.say("%s", s.summary(o))
	if o.Error != nil {
		s.printOutcomeError(o)
	}
	return outcomeExit(o)
}

// resultText is what the tool said: its structured result as it wrote it, or text.
func resultText(o *schemas.Outcome) string {
	if len(o.Structured) > 0 && string(o.Structured) != "null" {
		return string(o.Structured)
	}
	var parts []string
	for _, c := range o.Content {
		parts = append(parts, c.Text)
	}
	return strings.Join(parts, "\n")
}

func (s *shell) summary(o *schemas.Outcome) string {
	color := red
	switch o.Status {
	case schemas.Succeeded:
		color = green
	case schemas.UnknownOutcome, schemas.Unavailable, schemas.Repair, schemas.Cancelled:
		color = yellow
	}
	words := []string{string(o.Status), o.Tool}
	if o.Repeated {
		words = append(words, "(repeated: the stored outcome, nothing was run)")
	}
	if o.Call != "" {
		words = append(words, "call "+o.Call)
	}
	if o.Generation > 0 {
		words = append(words, fmt.Sprintf("replay %d", o.Generation))
	}
	words = append(words, count(len(o.Attempts), "attempt"))
	if n := len(o.Attempts); n > 0 && !o.Timing.Settled.IsZero() {
		words = append(words, brief(o.Timing.Settled.Sub(o.Timing.Published)))
	}
	if o.Run != "" {
		words = append(words, "run "+o.Run)
	}
	if b := o.Budget; b.Attempts.Limit > 0 {
		words = append(words, fmt.Sprintf("spent attempts %s, side effects %s", used(b.Attempts), used(b.SideEffects)))
	}
	return s.paint(color, words[0]) + "  " + safe(strings.Join(words[1:], "  "))
}

func (s *shell) printOutcomeError(o *schemas.Outcome) {
	e := o.Error
	s.say("  %s", oneLine(e.Code+suffix(": ", e.Message)))
	if e.Reason != "" {
		s.say("  %s of run %s", e.Reason, oneLine(e.Scope))
	}
	if f := e.LastFailure; f != nil {
		s.say("  last failure: %s", oneLine(f.Code+suffix(": ", f.Message)))
	}
	s.say("  next action: %s", o.NextAction)
	switch {
	case o.Status == schemas.Failed || o.Status == schemas.UnknownOutcome || o.Status == schemas.Exhausted: // they have a letter
		s.next("tollgate dlq ls --call "+o.Call, "tollgate calls show "+s.short(o.Call))
	case o.Call != "" && o.Status != schemas.Rejected:
		s.next("tollgate calls show " + s.short(o.Call))
	}
}

// outcomeExit is the exit code of an outcome; nil is success.
func outcomeExit(o *schemas.Outcome) error {
	switch {
	case o.Status == schemas.Succeeded:
		return nil
	case o.Code() == schemas.CodeStillRunning:
		return told(exitUnreachable)
	case o.Status == schemas.Exhausted && o.ServiceCode() == 402:
		return told(exitBudget)
	case o.Status == schemas.Exhausted:
		return told(exitDeadline)
	}
	return told(exitToolError)
}
