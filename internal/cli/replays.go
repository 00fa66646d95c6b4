package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/dedupe"
)

func (s *shell) replaysCommand() *cobra.Command {
	c := group("replays", "Bulk replays: watch, pause, resume, cancel",
		s.replayListCommand(), s.replayShowCommand(), s.replayWatchCommand(),
		s.replayChangeCommand("pause", "Replay no more letters until it is resumed", control.VerbReplayPause),
		s.replayChangeCommand("resume", "Go on with a paused or stopped one", control.VerbReplayResume),
		s.replayChangeCommand("cancel", "End it; letters that are left stay as they are", control.VerbReplayCancel))
	c.Long = "A bulk replay is made by tollgate dlq replay with a filter or several IDs. The dispatcher carries it\n" +
		"out, also after a restart, and stops it when too many letters die again."
	return c
}

func (s *shell) replayListCommand() *cobra.Command {
	return &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List bulk replays, the newest first", Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := ask[control.ReplaysPage](c.Context(), s, control.VerbReplaysList, control.Empty{})
			if err != nil {
				return err
			}
			return s.printReplays(p)
		}}
}

func (s *shell) printReplays(p control.ReplaysPage) error {
	if s.json {
		p.Replays = some(p.Replays)
		return s.printJSON("ReplayList", p)
	}
	if len(p.Replays) == 0 {
		s.say("No bulk replays.")
		s.next("tollgate dlq groups", "tollgate dlq replay --group GROUP --dry-run")
		return nil
	}
	g := &grid{heads: []string{"NAME", "STATE", "REPLAYED", "OF", "OK", "DIED AGAIN", "SKIPPED", "LEFT", "RATE", "BY", "CREATED", "WHY"}}
	for _, b := range p.Replays {
		g.add(b.Name, string(b.State), strconv.Itoa(b.Tally.Replayed), strconv.Itoa(b.Matched), strconv.Itoa(b.Tally.Succeeded), strconv.Itoa(b.Tally.DiedAgain),
			strconv.Itoa(b.SkippedCount()), strconv.Itoa(b.Left), fmt.Sprintf("%g/s", b.Rate), b.By, s.ago(b.Created), s.clipped(b.Why))
	}
	s.printGrid(g)
	s.next("tollgate replays show " + p.Replays[0].Name)
	return nil
}

// replayDetail is a bulk replay with its letters, where they are asked for.
type replayDetail struct {
	*dedupe.Replay
	Letters []dedupe.ReplayItem `json:"letters,omitempty"`
}

func (s *shell) replayShowCommand() *cobra.Command {
	var letters bool
	c := &cobra.Command{Use: "show NAME", Short: "One bulk replay: what it is to do, and how far it is", Args: exactly(1, "a bulk replay"), ValidArgsFunction: s.completeReplays,
		RunE: func(c *cobra.Command, args []string) error {
			b, err := ask[dedupe.Replay](c.Context(), s, control.VerbReplayShow, control.ReplayName{Name: args[0]})
			if err != nil {
				return err
			}
			d := replayDetail{Replay: &b}
			if letters {
				err = s.replayItems(c.Context(), b.Name, func(i dedupe.ReplayItem) { d.Letters = append(d.Letters, i) })
			}
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("Replay", d)
			}
			s.printReplay(&d)
			return nil
		}}
	c.Flags().BoolVar(&letters, "letters", false, "every letter, and what became of it")
	return c
}

func (s *shell) printReplay(d *replayDetail) {
	b := d.Replay
	s.line("%s  %s  %s", b.Name, b.State, replayText(b, s.now()))
	s.line("  scope     %s", oneLine(b.Scope))
	s.line("  created   %s (%s) by %s%s", s.at(b.Created), s.ago(b.Created), oneLine(b.By), suffix(": ", oneLine(b.Why)))
	s.line("  changed   %s%s", s.at(b.Changed), suffix("  ", oneLine(b.Reason)))
	s.line("  pace      %g/s, at most %d without an outcome; stops when more than %g %% died again", b.Rate, b.InFlight, 100*b.StopAbove)
	if b.Canary > 0 {
		s.line("  canary    %d, %s", b.Canary, map[bool]string{true: "passed", false: "not yet passed"}[b.CanaryPassed])
	}
	s.line("  matched   %d: %d left, %d replayed, %d skipped", b.Matched, b.Left, b.Tally.Replayed, b.SkippedCount())
	s.line("  replayed  %d: %d succeeded, %d died again, %d still running", b.Tally.Replayed, b.Tally.Succeeded, b.Tally.DiedAgain, b.Tally.Open())
	s.printSkipped(b.Skipped)
	if b.Trouble != "" {
		s.line("  waits     %s", oneLine(b.Trouble))
	}
	if len(d.Letters) > 0 {
		g := &grid{heads: []string{"ID", "STATE", "OUTCOME", "REPLAYED", "WHY"}}
		for _, i := range d.Letters {
			g.add(s.short(i.Letter), string(i.State), string(i.Status), s.ago(i.At), s.clipped(i.Why))
		}
		s.printGrid(g)
	}
	s.next(replayNext(b)...)
}

func (s *shell) replayWatchCommand() *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{Use: "watch NAME", Short: "Follow a bulk replay until it is over", Args: exactly(1, "a bulk replay"), ValidArgsFunction: s.completeReplays,
		Long: "Follows a bulk replay until it is done, cancelled or stopped and all its outcomes are there. Ctrl-C\n" +
			"leaves it running. The exit code is 0 when every replayed letter has succeeded, else 4.",
		RunE: func(c *cobra.Command, args []string) error { return s.watchReplay(c.Context(), args[0], wait) }}
	c.Flags().DurationVar(&wait, "wait", 0, "for how long (default until it is over)")
	return c
}

func (s *shell) watchReplay(ctx context.Context, name string, wait time.Duration) error {
	b, err := ask[dedupe.Replay](ctx, s, control.VerbReplayShow, control.ReplayName{Name: name})
	if err != nil {
		return err
	}
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, errWaited)
		defer cancel()
	}
	after, err := s.follow(ctx, &b)
	if err != nil && !errors.Is(err, errWaited) {
		return err
	}
	if s.json {
		if err := s.printJSON("Replay", after); err != nil {
			return err
		}
	} else {
		s.printReplayed(after)
	}
	return replayExit(after)
}

func (s *shell) replayChangeCommand(name, short, verb string) *cobra.Command {
	var why string
	c := &cobra.Command{Use: name + " NAME", Short: short, Args: exactly(1, "a bulk replay"), ValidArgsFunction: s.completeReplays,
		RunE: func(c *cobra.Command, args []string) error {
			b, err := ask[dedupe.Replay](c.Context(), s, verb, control.ReplayName{Name: args[0], Why: why})
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("Replay", b)
			}
			s.line("replay %s is %s: %s", b.Name, b.State, replayText(&b, s.now()))
			s.next(replayNext(&b)...)
			return nil
		}}
	c.Flags().StringVar(&why, "why", "", "why, for the audit")
	acceptYes(c)
	return c
}

func (s *shell) completeReplays(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.replayNames(), cobra.ShellCompDirectiveNoFileComp
}

// replayNames offers the bulk replays there are, each with how far it is.
func (s *shell) replayNames() []string {
	out, _ := s.live(func(ctx context.Context) []string {
		p, err := ask[control.ReplaysPage](ctx, s, control.VerbReplaysList, control.Empty{})
		if err != nil {
			return nil
		}
		var out []string
		for _, b := range p.Replays {
			out = append(out, fmt.Sprintf("%s\t%s %d of %d", b.Name, b.State, b.Tally.Replayed, b.Matched))
		}
		return out
	})
	return out
}
