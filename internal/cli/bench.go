package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/internal/bench"
)

func (s *shell) benchCommand() *cobra.Command {
	var o bench.Options
	var sync, prepare string
	c := &cobra.Command{Use: "bench", Short: "Measure what a call costs on this machine", Args: none,
		Long: "Runs the whole dispatcher on an embedded server and real files, and beside it the least that any design\n" +
			"on JetStream has to do. The numbers are of this machine only.",
		Example: "  tollgate bench --json\n  tollgate bench --sync 100ms --retained 100000",
		RunE: func(c *cobra.Command, _ []string) error {
			if sync != "always" {
				d, err := time.ParseDuration(sync)
				if err != nil || d <= 0 {
					return usage("--sync "+quoted(sync)+" is neither always nor a duration", "--sync 100ms")
				}
				o.Sync = d
			}
			if err := o.Check(); err != nil {
				return usage(strings.ReplaceAll(err.Error(), "\n", "; "), "tollgate bench --help")
			}
			o.Progress = func(what string) { s.say("%s", what) }
			if o.Dir = prepare; prepare != "" {
				return s.prepareBench(c.Context(), o)
			}
			o.Apart = func(ctx context.Context, o bench.Options) error {
				self, err := os.Executable()
				if err != nil {
					return err
				}
				child := exec.CommandContext(ctx, self, "bench", "--quiet", "--prepare", o.Dir, "--sync", sync,
					"--retained", strconv.Itoa(o.Retained), "--pending-retries", strconv.Itoa(o.PendingRetries))
				child.Stderr = s.stderr
				if _, err := child.StdinPipe(); err != nil { // it closes with this process, whatever that dies of
					return err
				}
				return child.Run()
			}
			r, err := bench.Run(c.Context(), o)
			if err != nil {
				return err
			}
			return s.printBench(r)
		}}
	f := c.Flags()
	f.IntVar(&o.Calls, "calls", 2000, "calls of one round")
	f.StringVar(&sync, "sync", "always", "always, or how often files are synced")
	f.IntVar(&o.Retained, "retained", 0, "settled calls that the ledger holds beforehand")
	f.IntVar(&o.PendingRetries, "pending-retries", 0, "calls that wait for a retry meanwhile")
	f.StringVar(&o.Tool, "tool", "function", "function or http")
	f.StringVar(&o.Via, "via", "calls", "calls, the stream; or do, the request/reply endpoint")
	f.IntVar(&o.Payload, "payload", 0, "bytes of a call's arguments; 0: 80")
	f.IntVar(&o.InFlight, "in-flight", 0, "publishers, or requests at once; 0: 16, via do 128")
	f.DurationVar(&o.Pause, "pause", 0, "with one call in flight: the longest pause, at random, before the next")
	f.StringVar(&prepare, "prepare", "", "only fill a ledger in this directory, while standard input is open")
	_ = f.MarkHidden("prepare") // it is there
	complete(c, "tool", "function", "http")
	complete(c, "via", "calls", "do")
	return c
}

// prepareBench is what a benchmark has another process do. It ends with its standard
// input: hours of filling are of no use to anybody when who wanted it was killed.
func (s *shell) prepareBench(ctx context.Context, o bench.Options) error {
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, s.stdin) // that it ends is all there is to know
		cancel()
	}()
	err := bench.Prepare(open, o)
	if err != nil && open.Err() != nil && ctx.Err() == nil {
		return &fault{code: exitInterrupted, what: "nobody wants the ledger any more: standard input has ended", cause: err}
	}
	return err
}

func (s *shell) printBench(r bench.Report) error {
	if s.json {
		return s.printJSON("Bench", r)
	}
	s.line("calls      %8.0f /s   bare JetStream %.0f /s   ratio %.2f   (%d a round, sync %s)", r.CallsPerS, r.FloorCallsPerS, r.Ratio, r.Calls, r.Sync)
	s.line("latency    %8.2f ms  p99 %.2f ms   bare JetStream %.2f ms   one fsync %.2f ms", r.P50MS, r.P99MS, r.FloorP50MS, r.FsyncP50MS)
	s.line("cpu        %8.0f us a call", r.CPUPerCallUS)
	s.line("ledger     %8.0f bytes a call, %.0f before compaction", r.LedgerBytes, r.LedgerUncompacted)
	s.line("memory     %8.1f MB with %d retained calls and %d pending retries", r.RSSMB, r.RetainedKeys, r.PendingRetries)
	s.line("start      %8.2f s", r.StartS)
	if r.GrowthRatio > 0 {
		s.line("ledger     %8.2f s to open from the disk, %.2f from the cache, %.0f bytes of memory a call", r.LedgerColdS, r.LedgerWarmS, r.HeapPerKey)
		s.line("growth     %8.2f of the rate with a small ledger, %.0f /s", r.GrowthRatio, r.SmallCallsPerS)
	}
	return nil
}
