package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/control"
)

func (s *shell) auditCommand() *cobra.Command {
	return group("audit", "What operators decided: who, when, what and why", s.auditListCommand())
}

func (s *shell) auditListCommand() *cobra.Command {
	var q control.AuditQuery
	var actions []string
	var since, until, cursor string
	var all bool
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List operators' decisions, the newest first", Args: none,
		Long: "Every decision is recorded, allowed or refused, with what it was about before and after. Letters that expired and\n" +
			"notes that were over are in it too; they are the dispatcher's.",
		Example: "  tollgate audit ls --since 2h\n  tollgate audit ls --by ada --action replay,grant\n  tollgate audit ls --target 7qx4t9kd --json",
		RunE: func(c *cobra.Command, _ []string) error {
			q.Tenant, q.Action = s.tenant, strings.Join(actions, ",")
			if err := q.Check(); err != nil {
				return usage(err.Error(), "tollgate audit ls --help")
			}
			var err error
			if q.Since, err = s.instant("--since", since); err != nil {
				return err
			}
			if q.Until, err = s.instant("--until", until); err != nil {
				return err
			}
			if cursor != "" {
				if q.Before, err = strconv.ParseUint(cursor, 10, 64); err != nil {
					return usage("--cursor "+quoted(cursor)+" is not a cursor", "the one that the page before has printed")
				}
			}
			if q.Limit < 0 {
				return usage("--limit must not be negative", "--limit 50")
			}
			return s.audits(c, q, all)
		}}
	f := c.Flags()
	f.StringSliceVar(&actions, "action", nil, "what was decided, or several: "+strings.Join(control.AuditActions, ", "))
	f.StringVar(&q.By, "by", "", "a part of who decided")
	f.StringVar(&q.Target, "target", "", "a part of what it was about: a letter, call, run, tool, replay or group")
	f.StringVar(&since, "since", "", "at or after: RFC 3339, or an age such as 2h or 3d")
	f.StringVar(&until, "until", "", "before: RFC 3339, or an age")
	f.BoolVar(&q.Refused, "refused", false, "only what was not allowed")
	f.IntVar(&q.Limit, "limit", 50, "most entries")
	f.StringVar(&cursor, "cursor", "", "go on after the page that named this cursor")
	f.BoolVar(&all, "all", false, "every page")
	complete(c, "action", control.AuditActions...)
	return c
}

func (s *shell) audits(c *cobra.Command, q control.AuditQuery, all bool) error {
	if all {
		q.Limit = 500
	}
	p, err := ask[control.AuditPage](c.Context(), s, control.VerbAuditList, q)
	for all && err == nil && p.Next != 0 {
		q.Before = p.Next
		var more control.AuditPage
		more, err = ask[control.AuditPage](c.Context(), s, control.VerbAuditList, q)
		p.Entries, p.Next = append(p.Entries, more.Entries...), more.Next
	}
	if err != nil {
		return err
	}
	if s.json {
		p.Entries = some(p.Entries)
		return s.printJSON("AuditList", p)
	}
	if len(p.Entries) == 0 {
		s.say("No decision matches.")
		return nil
	}
	g := &grid{heads: []string{"WHEN", "BY", "ACTION", "TARGET", "RESULT", "BEFORE", "AFTER", "WHY", "DETAIL"}}
	for _, e := range p.Entries {
		result := "allowed"
		if !e.Allowed {
			result = "refused"
		}
		g.add(s.at(e.At), e.By, e.Action, s.short(e.Target), result, e.Before, e.After, s.clipped(e.Why), s.clipped(e.Detail))
	}
	s.printGrid(g)
	if p.Next != 0 {
		s.say("more: --cursor %d   all: --all", p.Next)
	}
	return nil
}
