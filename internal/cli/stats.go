package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/control"
)

func (s *shell) statsCommand() *cobra.Command {
	var f letterFilter
	c := &cobra.Command{Use: "stats", Short: "How many dead letters there are, of what, and how old", Args: none,
		Example: "  tollgate dlq stats\n  tollgate dlq stats --tool 'crm.*' --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.read(s); err != nil {
				return err
			}
			st, err := ask[control.LetterStats](c.Context(), s, control.VerbStats, f.Filter)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("DeadLetterStats", st)
			}
			s.printStats(&st)
			return nil
		}}
	f.flags(c)
	return c
}

func (s *shell) printStats(st *control.LetterStats) {
	s.line("active     %d in %s%s", st.Active, count(st.Groups, "group"), suffix(", the oldest died ", s.agoOrNothing(st)))
	s.line("replaying  %d", st.Replaying)
	s.line("resolved   %d", st.Resolved)
	s.line("discarded  %d", st.Discarded)
	s.line("last 24 h  %s  %d", trend(st.Trend), sum(st.Trend))
	s.line("newest     %s", s.ago(st.Newest))
	most := "no limit of its own"
	if st.MaxBytes > 0 {
		most = fmt.Sprintf("of %d MB", st.MaxBytes>>20)
	}
	s.line("stored     %d MB, %s", st.Bytes>>20, most)
	for _, by := range []struct {
		name string
		of   map[string]int
	}{{"reason", st.ByReason}, {"tool", st.ByTool}, {"class", st.ByClass}} {
		if len(by.of) > 0 {
			s.line("by %-7s %s", by.name, largest(by.of))
		}
	}
	if st.Active > 0 {
		s.next("tollgate dlq groups")
	}
}

func (s *shell) agoOrNothing(st *control.LetterStats) string {
	if st.Oldest.IsZero() {
		return ""
	}
	return s.ago(st.Oldest)
}

func sum(ns []int) (n int) {
	for _, v := range ns {
		n += v
	}
	return n
}

// largest lists counts, the largest first, ten at most.
func largest(of map[string]int) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(of[b]-of[a], cmp.Compare(a, b)) })
	var out []string
	for i, name := range names {
		if i == 10 {
			out = append(out, fmt.Sprintf("%d more", len(names)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(out, ", ")
}
