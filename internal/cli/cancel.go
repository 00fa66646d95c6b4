package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tollgate/dispatcher"
	"tollgate/schemas"
)

func (s *shell) cancelCommand() *cobra.Command {
	var q dispatcher.CancelRequest
	c := &cobra.Command{Use: "cancel --run RUN | --call CALL", Short: "Stop a run with everything below it, or one call", Args: none,
		Long:    "Waiting calls settle at once, running attempts are told to stop, and no further attempt starts. A run nobody knows yet is remembered as cancelled.",
		Example: "  tollgate cancel --run run_42/researcher --reason 'user closed the session'",
		RunE: func(c *cobra.Command, _ []string) error {
			if q.Run != "" && !schemas.ValidRun(q.Run) {
				return usage("--run "+quoted(q.Run)+" is not a run path", "tollgate runs ls")
			}
			return s.cancel(c.Context(), q)
		}}
	c.Flags().StringVar(&q.Run, "run", "", "run path")
	c.Flags().StringVar(&q.Call, "call", "", "call ID")
	c.Flags().StringVar(&q.Reason, "reason", "", "why")
	acceptYes(c)
	c.MarkFlagsOneRequired("run", "call")
	c.MarkFlagsMutuallyExclusive("run", "call")
	return c
}

func (s *shell) cancel(ctx context.Context, q dispatcher.CancelRequest) error {
	client, err := s.control()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rep, err := client.Cancel(ctx, s.tenantOrDefault(), q)
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON("Cancelled", rep)
	}
	s.line("cancelled %d waiting, told %d running to stop", rep.Cancelled, rep.Running)
	if rep.Unknown > 0 && q.Run != "" {
		s.say("run %s was not known; it is remembered as cancelled", q.Run)
	}
	if rep.Unknown > 0 && q.Call != "" {
		return &fault{code: exitNotFound, what: "there is no call " + q.Call + " of tenant " + s.tenantOrDefault(), try: "tollgate calls ls"}
	}
	return nil
}
