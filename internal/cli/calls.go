package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/control"
)

func (s *shell) callsCommand() *cobra.Command {
	return group("calls", "Calls: where each is, and why", s.callListCommand(), s.callShowCommand())
}

func (s *shell) callListCommand() *cobra.Command {
	var q control.CallsQuery
	var cursor string
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List calls, the newest first", Args: none,
		Example: "  tollgate calls ls --run run_42 --state waiting\n  tollgate calls ls --status unknown_outcome --json",
		RunE: func(c *cobra.Command, _ []string) error {
			q.Tenant = s.tenant
			if cursor != "" {
				var err error
				if q.After, err = strconv.ParseUint(cursor, 10, 64); err != nil {
					return usage("--cursor "+quoted(cursor)+" is not a cursor", "the one that the page before has printed")
				}
			}
			if err := q.Check(); err != nil {
				return usage(err.Error(), "tollgate calls ls --help")
			}
			return s.listCalls(c.Context(), q)
		}}
	f := c.Flags()
	f.StringVar(&q.Tool, "tool", "", "tool, or a glob such as 'crm.*'")
	f.StringVar(&q.Run, "run", "", "run path, and everything below it")
	f.StringVar(&q.Key, "key", "", "idempotency key")
	f.StringVar(&q.State, "state", "", strings.Join(control.CallStates, ", "))
	f.StringVar(&q.Status, "status", "", "of the outcome: "+strings.Join(control.CallStatuses, ", "))
	f.IntVar(&q.Limit, "limit", 50, "most entries")
	f.StringVar(&cursor, "cursor", "", "go on after the page that named this cursor")
	complete(c, "state", control.CallStates...)
	complete(c, "status", control.CallStatuses...)
	return c
}

func (s *shell) listCalls(ctx context.Context, q control.CallsQuery) error {
	p, err := ask[control.CallsPage](ctx, s, control.VerbCallsList, q)
	if err != nil {
		return err
	}
	if s.json {
		p.Calls = some(p.Calls)
		return s.printJSON("CallList", p)
	}
	if len(p.Calls) == 0 {
		s.say("No calls.")
		s.next("tollgate tools ls", "tollgate call TOOL '{}'")
		return nil
	}
	g := &grid{heads: []string{"CALL", "PUBLISHED", "TOOL", "STATE", "STATUS", "CODE", "TRIES", "RUN", "KEY"}}
	for _, x := range p.Calls {
		state := x.State
		if !x.Due.IsZero() && x.State == "waiting" {
			state += " (next " + s.ago(x.Due) + ")"
		}
		g.add(s.short(x.Call), s.ago(x.Published), x.Tool, state, string(x.Status), x.Code, fmt.Sprintf("%d/%d", x.Attempts, x.Limit), x.Run, x.Key)
	}
	s.printGrid(g)
	if p.Next != 0 {
		s.say("more: --cursor %d", p.Next)
	}
	s.next("tollgate calls show " + s.short(p.Calls[0].Call))
	return nil
}

func (s *shell) callShowCommand() *cobra.Command {
	return &cobra.Command{Use: "show CALL", Short: "One call: its attempts, and why each decision was taken", Args: exactly(1, "a call"),
		RunE: func(c *cobra.Command, args []string) error {
			d, err := ask[control.CallDetail](c.Context(), s, control.VerbCallShow, control.IDQuery{ID: args[0]})
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("Call", d)
			}
			s.printCall(&d)
			return nil
		}}
}

func (s *shell) printCall(d *control.CallDetail) {
	before := d.Outcome != nil && d.Outcome.Generation < d.Generation // a replay is under way
	if before {
		s.line("%s  %s  %s", d.Call, d.Tool, d.State)
	} else {
		s.line("%s  %s  %s%s%s", d.Call, d.Tool, d.State, suffix(" ", string(d.Status)), suffix(" ", d.Code))
	}
	s.line("  run        %s  key %s  tenant %s  lane %s", oneLine(d.Run), oneLine(d.Key), d.Tenant, d.Lane)
	s.line("  published  %s (%s)  %s", s.at(d.Published), s.ago(d.Published), origin(d.Origin))
	s.line("  deadline   %s", s.at(d.Deadline))
	if !d.Due.IsZero() && d.State == "waiting" {
		s.line("  next       %s (%s)", s.at(d.Due), s.ago(d.Due))
	}
	if !d.Settled.IsZero() && !before {
		s.line("  settled    %s", s.at(d.Settled))
	}
	t := d.Terms
	s.line("  terms      policy %s  %s%s  at most %s of %s each", t.Policy, t.Effect, suffix(" ", string(t.Safety)), count(t.Attempts, "attempt"), t.Timeout)
	s.line("  sent as    Idempotency-Key: %s", oneLine(d.DownstreamKey))
	if d.Generation > 0 {
		s.line("  replays    %d", d.Generation)
	}
	s.printEdits(d)
	if d.Ambiguous {
		s.line("  ambiguous  an attempt ended without an answer: its effect may have happened")
	}
	if d.Recoveries > 0 {
		s.line("  recovered  %d times after a crash", d.Recoveries)
	}
	if d.Owes != "" {
		s.line("  owes       a %s that is not published yet", d.Owes)
	}
	s.printTimeline(d.Timeline)
	s.printArguments(d)
	if o := d.Outcome; o != nil {
		if before {
			s.line("OUTCOME BEFORE THE REPLAY  settled %s", s.at(d.Settled))
		}
		s.line("OUTCOME    %s, next action %s", o.Status, o.NextAction)
		if o.Error != nil {
			s.line("  %s", oneLine(o.Error.Code+suffix(": ", o.Error.Message)))
		} else if text := resultText(o); text != "" {
			s.line("  %s", s.clipped(text))
		}
		s.line("  budget     attempts %s, side effects %s", used(o.Budget.Attempts), used(o.Budget.SideEffects))
	}
	if d.Note != "" {
		s.line("NOTE       %s", oneLine(d.Note))
	}
	if d.Letter != "" {
		s.line("LETTER     %s (%s)", d.Letter, d.LetterState)
		s.next("tollgate dlq show "+s.short(d.Letter), "tollgate runs show "+d.Run)
	} else {
		s.next("tollgate runs show " + d.Run)
	}
}

// printArguments shows what the call was asked with, while that is kept.
func (s *shell) printArguments(d *control.CallDetail) {
	switch {
	case d.ArgumentsFrom != "":
		s.line("ARGUMENTS  %s (%d bytes, kept in the %s)", s.clipped(d.Arguments), d.ArgumentsBytes, d.ArgumentsFrom)
	case d.ArgumentsError != "":
		s.line("ARGUMENTS  could not be read: %s", oneLine(d.ArgumentsError))
	default:
		s.line("ARGUMENTS  not kept any more: a call that ended without a dead letter leaves its outcome only")
	}
}

// printEdits shows what the call was made of, and what was made of it.
func (s *shell) printEdits(d *control.CallDetail) {
	if d.EditedFrom != "" {
		s.line("  edited     from dead letter %s", d.EditedFrom)
	}
	if d.EditedTo != "" {
		s.line("  edited     to call %s", d.EditedTo)
	}
}
