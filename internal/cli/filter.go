package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

// letterFilter is the filter that every dlq command shares. It is the scope of
// what is listed, and of what a bulk operation acts on.
type letterFilter struct {
	deadletter.Filter
	tools, reasons       []string
	since, until, cursor string
	all                  bool
}

func (f *letterFilter) flags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringSliceVar(&f.tools, "tool", nil, "tool, or a glob such as 'crm.*'; may be given several times")
	fs.StringSliceVar(&f.reasons, "reason", nil, "why it is a dead letter, or several: "+strings.Join(schemas.Reasons, ", "))
	fs.StringVar(&f.Code, "code", "", "error code")
	fs.StringVar(&f.Class, "class", "", "class of the error: transient, permanent or unclassified")
	fs.StringVar(&f.Run, "run", "", "run path, and everything below it")
	fs.StringVar(&f.Call, "call", "", "call ID or its beginning")
	fs.StringVar(&f.Key, "key", "", "idempotency key")
	fs.StringVar(&f.Group, "group", "", "group, from tollgate dlq groups")
	fs.StringVar(&f.Error, "error", "", "text within the error message")
	fs.StringVar(&f.ErrorRE, "error-re", "", "regular expression for the error message")
	fs.StringVar(&f.Attempts, "attempts", "", "attempts made: 3, or '>=3'")
	fs.StringVar(&f.Replayed, "replayed", "", "yes, no, or how often: '>=2'")
	fs.StringVar(&f.Replay, "replay", "", "the bulk replay in which it died again")
	fs.StringVar(&f.State, "state", "", statesUsage("active"))
	fs.StringVar(&f.since, "since", "", "died at or after: RFC 3339, or an age such as 2h or 3d")
	fs.StringVar(&f.until, "until", "", "died before: RFC 3339, or an age")
	complete(c, "reason", schemas.Reasons...)
	complete(c, "class", "transient", "permanent", "unclassified")
	complete(c, "replayed", "yes", "no")
	complete(c, "state", "active", "replaying", "resolved", "discarded", "purged", "all")
}

// statesUsage is the help for --state, which not every command reads the same when it
// is not given.
func statesUsage(without string) string {
	return "active, replaying, resolved, discarded, purged, all, or several (default " + without + ")"
}

// pageFlags are for lists.
func (f *letterFilter) pageFlags(c *cobra.Command) {
	c.Flags().IntVar(&f.Limit, "limit", 50, "most entries")
	c.Flags().StringVar(&f.Sort, "sort", "", strings.Join(deadletter.SortKeys, ", ")+"; with - in front downwards (default -seq, the newest first)")
	c.Flags().StringVar(&f.cursor, "cursor", "", "go on after the page that named this cursor")
	c.Flags().BoolVar(&f.all, "all", false, "every page")
	complete(c, "sort", deadletter.SortKeys...)
}

// read turns what was typed into a filter that is fixed in time.
func (f *letterFilter) read(s *shell) error {
	f.Tenant, f.Tool, f.Reason = s.tenant, strings.Join(f.tools, ","), strings.Join(f.reasons, ",")
	var err error
	if f.Since, err = s.instant("--since", f.since); err != nil {
		return err
	}
	if f.Until, err = s.instant("--until", f.until); err != nil {
		return err
	}
	if f.cursor != "" {
		if f.Before, err = strconv.ParseUint(f.cursor, 10, 64); err != nil {
			return usage("--cursor "+quoted(f.cursor)+" is not a cursor", "the one that the page before has printed")
		}
	}
	if f.Limit < 0 {
		return usage("--limit must not be negative", "--limit 50")
	}
	if err := f.Check(); err != nil {
		return usage(strings.ReplaceAll(err.Error(), "\n", "; "), "tollgate dlq ls --help")
	}
	return nil
}

// empty reports whether the filter would take every active letter.
func (f *letterFilter) empty() bool {
	rest := f.Filter
	rest.Tenant, rest.Sort, rest.Limit, rest.Before, rest.After = "", "", 0, 0, 0
	return rest == deadletter.Filter{} && len(f.tools) == 0 && len(f.reasons) == 0 && f.since == "" && f.until == ""
}

// names checks that what is acted on is named: by IDs or by a filter, and
// everything only when that is said.
func (f *letterFilter) names(args []string, action string) error {
	switch {
	case len(args) > 0 && (!f.empty() || f.all):
		return usage("IDs and a filter at the same time", "one of the two")
	case len(args) == 0 && f.empty() && !f.all:
		return usage("this would "+action+" every dead letter", "name IDs or a filter, or say --all")
	}
	return nil
}

// instant reads an RFC 3339 time, or an age counted back from now.
func (s *shell) instant(flag, text string) (time.Time, error) {
	t, err := deadletter.Instant(text, s.now())
	if err != nil {
		return time.Time{}, usage(flag+" "+quoted(text)+" is neither a time nor an age", flag+" 2026-11-30T12:00:00Z, 2h or 3d")
	}
	return t, nil
}

// letters reads every page, or one.
func (s *shell) letters(ctx context.Context, f letterFilter) (deadletter.Page, error) {
	if f.all {
		f.Limit = 500
	}
	p, err := ask[deadletter.Page](ctx, s, control.VerbLetterList, f.Filter)
	for f.all && err == nil && p.Next != 0 {
		f.Before = p.Next
		var more deadletter.Page
		more, err = ask[deadletter.Page](ctx, s, control.VerbLetterList, f.Filter)
		p.Letters, p.Next = append(p.Letters, more.Letters...), more.Next
	}
	return p, err
}

// ids returns the IDs named on the command line; a single "-" reads them from
// standard input, the first word of each line, so that it takes what a list prints.
func (s *shell) ids(args []string) ([]string, error) {
	if len(args) != 1 || args[0] != "-" {
		return args, nil
	}
	var out []string
	scan := bufio.NewScanner(s.stdin)
	for scan.Scan() {
		if words := strings.Fields(scan.Text()); len(words) > 0 && words[0] != "ID" {
			out = append(out, words[0])
		}
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read IDs from standard input: %w", err)
	}
	if len(out) == 0 {
		return nil, &fault{code: exitNotFound, what: "there are no IDs on standard input", try: "one ID a line"}
	}
	return out, nil
}

// frozen returns the IDs of the letters that match now, the oldest first. What dies
// while they are read is not among them: they are read backwards.
func (s *shell) frozen(ctx context.Context, f deadletter.Filter) ([]string, error) {
	const part = 10000
	f.Sort, f.Limit, f.Before = "", part, 0
	f.State = cmpOr(f.State, string(schemas.LetterActive))
	var ids []string
	for {
		set, err := ask[control.LetterIDs](ctx, s, control.VerbLetterIDs, f)
		if err != nil {
			return nil, err
		}
		ids = append(ids, set.IDs...)
		if f.Before = set.Next; set.Next == 0 {
			break
		}
	}
	if len(ids) == 0 {
		return nil, &fault{code: exitNotFound, what: "no dead letter matches", try: "tollgate dlq groups --state all"}
	}
	slices.Reverse(ids)
	return ids, nil
}
