package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"tollgate/control"
)

func (s *shell) noteCommand() *cobra.Command {
	var clear bool
	c := &cobra.Command{Use: "note {ID | GROUP} [TEXT...]", Short: "Write down what you know about a letter or a group",
		Long: "A letter's note is shown by dlq show, and is over when the letter is resolved, discarded or replayed. A group's\n" +
			"is shown by dlq groups, and is over when the last of the letters that were there is dealt with.",
		Example: "  tollgate dlq note g-1c04d9a3b2 'INC-412: the CRM is down, Ada is on it'\n  tollgate dlq note 7qx4t9kd --clear",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 != clear {
				return usage("name a letter or a group, and say what is to be noted, or --clear", "tollgate dlq note ID 'what you know'")
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			letters, _ := s.completeLetters(nil, nil, "")
			return append(s.groupNames(), letters...), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			done, err := ask[control.Done](c.Context(), s, control.VerbNote, control.NoteQuery{ID: args[0], Text: strings.Join(args[1:], " ")})
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("Done", done)
			}
			if clear {
				s.line("took the note off %s", done.ID)
			} else {
				s.line("noted on %s", done.ID)
			}
			return nil
		}}
	c.Flags().BoolVar(&clear, "clear", false, "take the note away")
	acceptYes(c)
	return c
}
