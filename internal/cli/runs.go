package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/schemas"
)

func (s *shell) runsCommand() *cobra.Command {
	return group("runs", "Runs: what each has spent, and what it may", s.runListCommand(), s.runShowCommand(), s.runGrantCommand())
}

func (s *shell) runListCommand() *cobra.Command {
	var q control.RunsQuery
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List runs, the last used first", Args: none,
		Example: "  tollgate runs ls --run nightly- --state attempts\n  tollgate runs ls --state open --sort left",
		RunE: func(c *cobra.Command, _ []string) error {
			q.Tenant = s.tenant
			p, err := ask[control.RunsPage](c.Context(), s, control.VerbRunsList, q)
			if err != nil {
				return err
			}
			return s.printRuns(p)
		}}
	f := c.Flags()
	f.StringVar(&q.Run, "run", "", "the beginning of its name")
	f.StringVar(&q.State, "state", "", "open, cancelled, or the limit that an account is at: attempts, side_effects or elapsed_time")
	f.StringVar(&q.Sort, "sort", "used", "used, the last used first; or left, the fewest attempts left first")
	f.IntVar(&q.Limit, "limit", 50, "most entries")
	f.StringVar(&q.After, "cursor", "", "go on after the page that named this cursor")
	complete(c, "state", control.RunStates...)
	complete(c, "sort", control.RunSorts...)
	return c
}

func (s *shell) printRuns(p control.RunsPage) error {
	if s.json {
		p.Runs = some(p.Runs)
		return s.printJSON("RunList", p)
	}
	if len(p.Runs) == 0 {
		s.say("No runs: nothing has been called yet, or none matches.")
		s.next("tollgate tools ls", "tollgate call TOOL '{}' --run r1")
		return nil
	}
	g := &grid{heads: []string{"RUN", "TENANT", "ATTEMPTS", "SIDE EFFECTS", "DEADLINE", "ACCOUNTS", "LAST USED"}}
	for _, r := range p.Runs {
		root := r.Accounts[r.Root]
		name := r.Root
		if root.Cancelled {
			name += " (cancelled)"
		}
		g.add(name, r.Tenant, fmt.Sprintf("%d of %d", root.Attempts, root.Limits.Attempts), fmt.Sprintf("%d of %d", root.Effects, root.Limits.SideEffects),
			s.ago(root.Limits.Deadline), strconv.Itoa(len(r.Accounts)), s.ago(r.Used))
	}
	s.printGrid(g)
	if p.Next != "" {
		s.say("more: --cursor %s", p.Next)
	}
	s.next("tollgate runs show "+p.Runs[0].Root, "tollgate calls ls --run "+p.Runs[0].Root)
	return nil
}

func (s *shell) runShowCommand() *cobra.Command {
	var charges bool
	c := &cobra.Command{Use: "show RUN", Short: "One run: every account, its limits, grants and holds", Args: exactly(1, "a run"),
		RunE: func(c *cobra.Command, args []string) error {
			d, err := ask[control.RunDetail](c.Context(), s, control.VerbRunShow, control.RunQuery{Tenant: s.tenantOrDefault(), Run: args[0], Charges: charges})
			if err != nil {
				return err
			}
			return s.printRun(d)
		}}
	c.Flags().BoolVar(&charges, "charges", false, "with what it was charged, when, and for which call")
	return c
}

func (s *shell) printRun(d control.RunDetail) error {
	if s.json {
		return s.printJSON("Run", d)
	}
	s.line("%s  tenant %s  started %s", d.Root, d.Tenant, s.at(d.Started))
	g := &grid{heads: []string{"ACCOUNT", "ATTEMPTS", "SIDE EFFECTS", "DEADLINE", "STATE"}}
	full := ""
	for _, path := range slices.Sorted(maps.Keys(d.Accounts)) {
		a := d.Accounts[path]
		state := accountState(a, s.now())
		if full == "" && state != "open" {
			full = path
		}
		g.add(path, fmt.Sprintf("%d of %d", a.Attempts, a.Limits.Attempts), fmt.Sprintf("%d of %d", a.Effects, a.Limits.SideEffects), s.at(a.Limits.Deadline), state)
	}
	s.printGrid(g)
	for _, path := range slices.Sorted(maps.Keys(d.Accounts)) {
		for _, x := range d.Accounts[path].Grants {
			s.line("granted to %s: attempts +%d, side effects +%d, elapsed +%s by %s %s%s", path, x.Attempts, x.SideEffects, x.Elapsed, oneLine(x.By), s.at(x.At), suffix(": ", oneLine(x.Why)))
		}
	}
	for _, h := range d.Holds {
		s.line("running: call %s of %s, charged to %s, until %s", s.short(h.Call), h.Tool, h.Path, s.at(h.Until))
	}
	for _, x := range d.Charges {
		s.line("charged: an attempt to %s %s by call %s", x.Path, s.at(x.At), s.short(x.Call))
	}
	if full != "" {
		s.next("tollgate runs grant "+full+" --attempts 5 --why '…'", "tollgate dlq ls --run "+d.Root)
	} else {
		s.next("tollgate calls ls --run " + d.Root)
	}
	return nil
}

// accountState says which dimension of an account stands in the way, if one does.
func accountState(a budget.Account, now time.Time) string {
	switch state := control.AccountState(a, now); state {
	case control.StateCancelled:
		return "cancelled" + suffix(": ", a.Reason)
	case budget.Attempts.String():
		return "no attempts left"
	case budget.SideEffects.String():
		return "no side effects left"
	case budget.ElapsedTime.String():
		return "out of time"
	default:
		return state
	}
}

func (s *shell) runGrantCommand() *cobra.Command {
	var q control.GrantQuery
	c := &cobra.Command{Use: "grant RUN --why TEXT", Short: "Raise a run's limits", Args: exactly(1, "a run"),
		Long:    "A grant raises the limits of one account: the run path as named, not those above or below it. It is recorded with who and why.",
		Example: "  tollgate runs grant run_42 --attempts 5 --why 'CRM was down'\n  tollgate runs grant run_42/researcher --elapsed 10m --why INC-412",
		RunE: func(c *cobra.Command, args []string) error {
			q.Tenant, q.Run = s.tenantOrDefault(), args[0]
			switch {
			case !schemas.ValidRun(q.Run):
				return usage(quoted(q.Run)+" is not a run path", "tollgate runs ls")
			case q.Attempts < 0 || q.SideEffects < 0 || q.Elapsed < 0 || q.Attempts == 0 && q.SideEffects == 0 && q.Elapsed == 0:
				return usage("nothing is granted", "--attempts 5, --side-effects 1 or --elapsed 10m")
			}
			return s.grant(c.Context(), q)
		}}
	f := c.Flags()
	f.IntVar(&q.Attempts, "attempts", 0, "how many more attempts")
	f.IntVar(&q.SideEffects, "side-effects", 0, "how many more dispatches that may change something")
	f.DurationVar(&q.Elapsed, "elapsed", 0, "how much later its deadline is")
	f.StringVar(&q.Why, "why", "", "why, for the audit")
	required(c, "why")
	acceptYes(c)
	return c
}

func (s *shell) grant(ctx context.Context, q control.GrantQuery) error {
	d, err := ask[control.RunDetail](ctx, s, control.VerbRunGrant, q)
	if err != nil {
		return err
	}
	return s.printRun(d)
}
