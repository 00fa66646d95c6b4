package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"tollgate/control"
)

func (s *shell) consoleCommand() *cobra.Command {
	var q control.LinkQuery
	role := string(control.Admin)
	c := &cobra.Command{Use: "console", Short: "A link that signs one browser in to the console, once", Args: none,
		Long: "Prints an address that signs in the browser it is opened in, as you and with the role named. It works once and for\n" +
			"fifteen minutes; the session lasts twelve hours, or until the dispatcher stops. That you have asked is recorded.\n\n" +
			"The dispatcher needs a listener for operators: http: {} in its configuration (tollgate dev has one).",
		Example: "  tollgate console\n  tollgate console --role viewer\n  xdg-open \"$(tollgate console -q)\"",
		RunE: func(c *cobra.Command, _ []string) error {
			q.Role = control.Role(role)
			if !slices.Contains(control.Roles, q.Role) {
				return usage("--role "+quoted(role)+" is none of viewer, operator, admin", "--role viewer")
			}
			link, err := ask[control.ConsoleLink](c.Context(), s, control.VerbConsoleLink, q)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("ConsoleLink", link)
			}
			s.line("%s", link.URL)
			s.say("signs one browser in as %s, once, until %s", link.Role, s.at(link.Expires))
			return nil
		}}
	c.Flags().StringVar(&role, "role", role, "what the browser may do: viewer, operator or admin")
	c.Flags().StringVar(&q.Why, "why", "", "why, for the audit")
	complete(c, "role", "viewer", "operator", "admin")
	acceptYes(c)
	return c
}
