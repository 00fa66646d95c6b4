package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

func (s *shell) dlqCommand() *cobra.Command {
	c := group("dlq", "Dead letters: find, understand, replay, resolve, discard",
		s.groupsCommand(), s.lettersCommand(), s.letterCommand(), s.statsCommand(), s.watchCommand(), s.replayCommand(), s.editCommand(), s.resolveCommand(), s.noteCommand(),
		s.discardCommand(), s.restoreCommand(), s.purgeCommand(), s.exportCommand(), s.importCommand())
	for _, sub := range c.Commands() {
		if sub.Flags().Lookup("group") != nil { // it has the shared filter
			completeLive(sub, "tool", s.toolNames)
			completeLive(sub, "group", s.groupNames)
			completeLive(sub, "code", s.codeNames)
			completeLive(sub, "replay", s.replayNames)
		}
	}
	c.Long = "A dead letter is a call that did not end well: it keeps the request, every attempt, and the reason.\n" +
		"IDs may be shortened to any unambiguous beginning of at least four characters; - reads them from standard input."
	return c
}

func (s *shell) groupsCommand() *cobra.Command {
	var f letterFilter
	var by string
	c := &cobra.Command{Use: "groups", Short: "What the dead letters died of, the largest group first", Args: none,
		Example: "  tollgate dlq groups\n  tollgate dlq groups --by tool --since 24h",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.read(s); err != nil {
				return err
			}
			p, err := ask[control.GroupsPage](c.Context(), s, control.VerbGroups, control.GroupsQuery{Filter: f.Filter, By: by})
			if err != nil {
				return err
			}
			return s.printGroups(p, f.empty())
		}}
	f.flags(c)
	c.Flags().StringVar(&by, "by", "", "fingerprint, tool, reason, run, class, code or hour (default fingerprint)")
	c.Flags().IntVar(&f.Limit, "limit", 0, "most groups (default 200)")
	complete(c, "by", deadletter.GroupKeys...)
	return c
}

func (s *shell) printGroups(p control.GroupsPage, everything bool) error {
	if s.json {
		p.Groups = some(p.Groups)
		return s.printJSON("DeadLetterGroupList", p)
	}
	if len(p.Groups) == 0 {
		s.noLetters(everything)
		return nil
	}
	s.say("%s in %s", count(p.Total, "dead letter"), count(p.Count, "group"))
	g := &grid{heads: []string{"GROUP", "COUNT", "TOOL", "REASON", "CODE", "RUNS", "FIRST", "LAST", "TREND(24h)", "ERROR"}}
	unknown, noted := false, false
	for _, x := range p.Groups {
		unknown, noted = unknown || x.Unknown > 0, noted || x.Note != ""
		g.add(s.groupID(&x), strconv.Itoa(x.Count), cmpOr(x.Tool, "(several)"), cmpOr(x.Reason, "(several)"), cmpOr(x.Code, "(several)"), strconv.Itoa(x.Runs),
			s.ago(x.First), s.ago(x.Last), trend(x.Trend), s.clipped(x.Error))
	}
	s.printGrid(g)
	if noted {
		s.printNotes(p.Groups)
	}
	if len(p.Groups) < p.Count {
		s.say("showing the first %d groups   more: --limit %d", len(p.Groups), p.Count)
	}
	if unknown {
		s.say("unknown_outcome: the tool may already have acted; a bulk replay leaves these out unless told --include-unknown")
	}
	if top := p.Groups[0]; top.By == "fingerprint" {
		next := []string{"tollgate dlq ls --group " + top.ID}
		if replayable(top.Reason) {
			next = append(next, "tollgate dlq replay --group "+top.ID+" --dry-run")
		}
		s.next(next...)
	}
	return nil
}

// groupID is what a group is called: hours are shown as the reader's clock has them.
func (s *shell) groupID(g *deadletter.Group) string {
	if at, err := time.Parse(time.RFC3339, g.ID); g.By == "hour" && err == nil {
		return s.at(at)
	}
	return g.ID
}

func (s *shell) printNotes(groups []deadletter.Group) {
	for _, x := range groups {
		if x.Note != "" {
			s.line("note on %s: %s", x.ID, oneLine(x.Note))
		}
	}
}

// bars are the heights of a trend; what is nothing is a point, so that it can be told
// from little.
var bars = []rune("▁▂▃▄▅▆▇█")

// trend draws counts, the oldest first, three hours to a bar.
func trend(hours []int) string {
	const width = 3
	var sums []int
	most := 0
	for i := 0; i < len(hours); i += width {
		n := 0
		for _, h := range hours[i:min(i+width, len(hours))] {
			n += h
		}
		sums, most = append(sums, n), max(most, n)
	}
	out := make([]rune, len(sums))
	for i, n := range sums {
		if out[i] = '·'; n > 0 {
			out[i] = bars[(n*len(bars)-1)/most]
		}
	}
	return string(out)
}

// clipped shortens a long text on a terminal only: scripts get it whole.
func (s *shell) clipped(text string) string {
	if s.outTTY {
		return clip(oneLine(text), 60)
	}
	return text
}

func (s *shell) noLetters(everything bool) {
	if everything {
		s.say("No dead letters. Calls that cannot be finished would be here.")
		s.next("tollgate calls ls", "tollgate dlq ls --state all")
		return
	}
	s.say("No dead letters match.")
	s.next("tollgate dlq groups", "the same with --state all")
}

func (s *shell) lettersCommand() *cobra.Command {
	var f letterFilter
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List dead letters, the newest first", Args: none,
		Example: "  tollgate dlq ls --tool 'crm.*' --since 2h\n  tollgate dlq ls --reason unknown_outcome --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.read(s); err != nil {
				return err
			}
			p, err := s.letters(c.Context(), f)
			if err != nil {
				return err
			}
			return s.printLetters(p, f.empty())
		}}
	f.flags(c)
	f.pageFlags(c)
	return c
}

func (s *shell) printLetters(p deadletter.Page, everything bool) error {
	if s.json {
		p.Letters = some(p.Letters)
		return s.printJSON("DeadLetterList", p)
	}
	if len(p.Letters) == 0 {
		s.noLetters(everything)
		return nil
	}
	g := &grid{heads: []string{"ID", "DIED", "STATE", "TOOL", "REASON", "CODE", "TRIES", "REPLAYED", "RUN", "KEY", "ERROR"}}
	for _, l := range p.Letters {
		g.add(s.short(l.ID), s.ago(l.DiedAt), string(l.State), l.Tool, l.Reason, l.Code, strconv.Itoa(l.Attempts), replayedText(l.Generation), l.Run, l.Key, s.clipped(l.Message))
	}
	s.printGrid(g)
	if len(p.Letters) < p.Total {
		more := ""
		if p.Next != 0 {
			more = fmt.Sprintf("   more: --cursor %d   all: --all", p.Next)
		}
		s.say("showing %d of %d%s", len(p.Letters), p.Total, more)
	}
	next := []string{"tollgate dlq show " + s.short(p.Letters[0].ID)}
	if p.Letters[0].State == schemas.LetterActive && replayable(p.Letters[0].Reason) {
		next = append(next, "tollgate dlq replay "+s.short(p.Letters[0].ID))
	}
	s.next(next...)
	return nil
}

// replayedText says how often a letter's call had been replayed when it died.
func replayedText(generation int) string {
	if generation == 0 {
		return ""
	}
	return fmt.Sprintf("%d×", generation)
}
