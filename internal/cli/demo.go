package cli

import (
	"github.com/spf13/cobra"

	"tollgate/internal/demo"
)

func (s *shell) demoCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "demo", Short: "Watch calls succeed, repeat, recover, exhaust, get lost and be replayed", Args: none,
		Long: "Starts a server, a dispatcher and tools that fail on request, sends real calls, says what became of\n" +
			"each, and checks all of it. It exits with 1 when anything went otherwise than told.",
		RunE: func(c *cobra.Command, _ []string) error { return demo.Story(c.Context(), s.stdout, dir) }}
	c.Flags().StringVar(&dir, "dir", "", "keep its files in this folder (default a temporary one)")
	return c
}
