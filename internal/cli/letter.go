package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/schemas"
)

func (s *shell) letterCommand() *cobra.Command {
	return &cobra.Command{Use: "show ID", Short: "Everything about one dead letter, and what to do about it", Args: exactly(1, "a dead letter's ID"),
		ValidArgsFunction: s.completeLetters,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := ask[schemas.Letter](c.Context(), s, control.VerbLetterShow, control.IDQuery{ID: args[0]})
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("DeadLetter", l)
			}
			s.printLetter(&l)
			return nil
		}}
}

func (s *shell) printLetter(l *schemas.Letter) {
	s.line("%s  %s  %s%s", l.ID, l.Tool, l.Reason, suffix("  ", string(l.State)))
	s.line("  died      %s (%s)", s.at(l.DiedAt), s.ago(l.DiedAt))
	s.line("  error     %s", oneLine(l.Code+suffix(": ", l.Message)))
	s.line("  call      %s  generation %d  lane %s  tenant %s", l.Call, l.Generation, l.Lane, l.Tenant)
	s.line("  run       %s  key %s", oneLine(l.Run), oneLine(l.Key))
	s.line("  deadline  %s", s.at(l.Deadline))
	s.line("  origin    %s", origin(l.Origin))
	if o := l.Outcome; o != nil {
		s.line("  budget    attempts %s, side effects %s", used(o.Budget.Attempts), used(o.Budget.SideEffects))
	}
	if l.Note != "" {
		s.line("  note      %s", oneLine(l.Note))
	}
	if l.Verdict != "" {
		s.line("  verdict   %s", l.Verdict)
	}
	if l.EditedTo != "" {
		s.line("  edited to call %s", l.EditedTo)
	}
	if l.EditedFrom != "" {
		s.line("  edited from dead letter %s", l.EditedFrom)
	}
	if l.Truncated {
		s.line("  truncated: headers or the outcome were cut so that the letter could be stored")
	}
	if l.Outcome != nil {
		s.printTimeline(l.Outcome.Attempts)
	}
	switch {
	case l.BodyLost:
		s.line("ARGUMENTS  lost")
	default:
		s.line("ARGUMENTS (%s)", argumentsSize(l))
		s.line("%s", indented([]byte(l.Arguments)))
	}
	if l.NextStep != "" {
		s.say("what to do: %s", l.NextStep)
	}
	id := s.short(l.ID)
	switch {
	case l.State == schemas.LetterDiscarded:
		s.next("tollgate dlq restore " + id)
	case l.EditedTo != "":
		s.next("tollgate calls show " + s.short(l.EditedTo))
	case l.State != schemas.LetterActive:
		s.next("tollgate calls show " + s.short(l.Call))
	case l.Reason == schemas.ReasonUnknownOutcome && l.Verdict == "":
		s.next("tollgate dlq resolve "+id+" --happened", "tollgate dlq resolve "+id+" --did-not-happen", "tollgate calls show "+s.short(l.Call))
	case !replayable(l.Reason) && l.Verdict == "":
		s.next("tollgate dlq discard " + id)
	default:
		s.next("tollgate dlq replay "+id, "tollgate dlq discard "+id, "tollgate calls show "+s.short(l.Call))
	}
}

// replayable tells whether a plain replay is what letters of a reason are for: what was
// refused is no call, and an unknown outcome is resolved first.
func replayable(reason string) bool {
	return reason != schemas.ReasonMalformed && reason != schemas.ReasonRejected && reason != schemas.ReasonUnknownOutcome
}

// origin is where the message came from: a place in a stream, or the endpoint.
func origin(o schemas.Origin) string {
	if o.Stream == "" {
		return oneLine(o.Subject)
	}
	return fmt.Sprintf("%s#%d  %s", o.Stream, o.Sequence, oneLine(o.Subject))
}

// suffix is text after a separator, or nothing.
func suffix(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

func used(u schemas.Usage) string {
	if u.Limit < 0 {
		return fmt.Sprint(u.Used)
	}
	return fmt.Sprintf("%d of %d", u.Used, u.Limit)
}

// indented shows JSON for reading, its numbers as written. Other bytes stay as they are.
func indented(body []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, body, "  ", "  ") != nil {
		return "  " + strings.TrimSpace(string(body))
	}
	return "  " + out.String()
}

// argumentsSize says how long the arguments are, and how much of them is shown.
func argumentsSize(l *schemas.Letter) string {
	if l.ArgsBytes == 0 {
		return count(len(l.Arguments), "byte")
	}
	return fmt.Sprintf("the first %d of %s", len(l.Arguments), count(l.ArgsBytes, "byte"))
}
