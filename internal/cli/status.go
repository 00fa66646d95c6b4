package cli

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/control"
)

func (s *shell) statusCommand() *cobra.Command {
	var window time.Duration
	c := &cobra.Command{Use: "status", Short: "Is it well? Dispatcher, ledger, streams, backlog", Args: none,
		Example: "  tollgate status\n  tollgate status --history 1h",
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("history") {
				return s.history(c.Context(), window)
			}
			st, err := ask[control.Status](c.Context(), s, control.VerbStatus, control.Empty{})
			if err != nil {
				return err
			}
			if s.json {
				err = s.printJSON("Status", st)
			} else {
				s.printStatus(&st)
			}
			if err == nil && !st.Ready {
				return told(exitFailure)
			}
			return err
		}}
	c.Flags().DurationVar(&window, "history", 0, "instead, how the last of this went, such as 1h; a day at most, and since the start")
	complete(c, "history", "15m", "1h", "6h", "24h")
	return c
}

func (s *shell) printStatus(st *control.Status) {
	word := "ready"
	if !st.Ready {
		word = "NOT READY"
	}
	s.line("%s  tollgate %s  up %s", word, st.Version, brief(s.now().Sub(st.Started)))
	s.line("  calls    %d running, %d waiting for their next attempt, %d publications owed, %d attempts abandoned", st.Running, st.Waiting, st.Owed, st.Abandoned)
	s.line("  process  %d goroutines, %s on the heap", st.Runtime.Goroutines, bytesText(int64(st.Runtime.HeapBytes)))
	letters := fmt.Sprintf("%d dead", st.Letters)
	if st.Letters > 0 {
		letters += ", the oldest " + s.ago(st.OldestLetter)
	}
	s.line("  letters  %s", letters)
	l := st.Ledger
	s.line("  ledger   %s (%s, sync %s)  epoch %d  %d live, %d ended, %s  last commit %s, %d failed", l.Path, bytesText(l.Bytes), l.Sync, l.Epoch, l.Live, l.Terminal, count(l.Runs, "run"),
		(time.Duration(l.CommitUS) * time.Microsecond), l.Failed)
	for _, why := range st.Missing {
		s.line("  missing  %s", oneLine(why))
	}
	for _, x := range st.Attention {
		if x.Kind != control.NotReady { // said above
			s.line("  look at  %s (%s)", oneLine(x.What), x.Try)
		}
	}
	s.line("  clock    %+d ms off the server's", st.ClockOffsetMS)
	if len(st.Paused) > 0 {
		s.line("  paused   %s", strings.Join(st.Paused, ", "))
	}
	if st.Guarantee != "" {
		s.line("  promise  %s", st.Guarantee)
	}
	g := &grid{heads: []string{"STREAM", "MESSAGES", "BYTES", "LIMIT", "ERROR"}}
	for _, x := range st.Streams {
		limit := "none"
		if x.MaxBytes > 0 {
			limit = bytesText(x.MaxBytes)
		}
		g.add(x.Name, fmt.Sprint(x.Messages), bytesText(int64(x.Bytes)), limit, x.Error)
	}
	s.printGrid(g)
	if st.Letters > 0 {
		s.next("tollgate dlq groups")
	}
}

func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 || f == float64(int64(f)) {
		return fmt.Sprintf("%d %s", int64(f), units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

func (s *shell) verifyCommand() *cobra.Command {
	return &cobra.Command{Use: "verify", Short: "Check the invariants on live data", Args: none,
		RunE: func(c *cobra.Command, _ []string) error { return s.verify(c.Context()) }}
}

func (s *shell) verify(ctx context.Context) error {
	rep, err := ask[control.VerifyReport](ctx, s, control.VerbVerify, control.Empty{})
	if err != nil {
		return err
	}
	if s.json {
		err = s.printJSON("VerifyReport", rep)
	} else {
		for _, x := range rep.Checks {
			word := "ok    "
			if len(x.Faults) > 0 {
				word = "FAILED"
			}
			s.line("%s  %-4s %s (%d checked)", word, x.Name, x.What, x.Checked)
			for _, f := range x.Faults {
				s.line("          %s", oneLine(f))
			}
		}
		if rep.OK {
			s.line("verify: ok")
		} else {
			s.line("verify: FAILED")
		}
	}
	if err == nil && !rep.OK {
		return told(exitFailure)
	}
	return err
}

func (s *shell) backupCommand() *cobra.Command {
	return &cobra.Command{Use: "backup PATH", Short: "Write a consistent copy of the ledger, on the dispatcher's machine", Args: exactly(1, "the path of a new file"),
		RunE: func(c *cobra.Command, args []string) error {
			rep, err := ask[control.BackupReport](c.Context(), s, control.VerbBackup, control.BackupQuery{Path: args[0]})
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON("BackupReport", rep)
			}
			s.line("%s (%s)", rep.Path, bytesText(rep.Bytes))
			return nil
		}}
}

func (s *shell) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "The version of this program", Args: none,
		RunE: func(*cobra.Command, []string) error {
			if s.json {
				return s.printJSON("Version", map[string]string{"version": version()})
			}
			s.line("tollgate %s", version())
			return nil
		}}
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, x := range info.Settings {
		if x.Key == "vcs.revision" && len(x.Value) >= 12 {
			return "devel-" + x.Value[:12]
		}
	}
	return "devel"
}
