// Package cli is the command line: what is typed becomes a question to a running
// dispatcher, or one that is started here, and the answer becomes a table, text or
// JSON, with an exit code that scripts can rely on.
//
// It decides nothing about calls: it stands on control.Client, the results stream
// and internal/app, and may not look into a ledger.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// errInterrupted is the cause of a context that a signal has ended.
var errInterrupted = errors.New("interrupted")

// Main runs the command line of this process and returns its exit code. The first
// SIGINT or SIGTERM ends the command in order, the second ends the process at once.
func Main() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(errInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	return Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &shell{stdin: stdin, stdout: stdout, stderr: stderr, env: os.Getenv, now: time.Now,
		inTTY: isTerminal(stdin), outTTY: isTerminal(stdout), errTTY: isTerminal(stderr)}
	root := s.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	s.close()
	if err == nil {
		return exitOK
	}
	f := s.explain(ctx, err)
	s.printFault(f)
	return f.code
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// root is the whole command tree.
func (s *shell) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "tollgate",
		Short: "Tool calls for AI agents that happen once, on time and within budget",
		Long: "Tollgate runs the tool calls of AI agents from NATS: it charges the run's budget, retries what is safe\n" +
			"to retry, stops at the deadline, remembers the answer under the idempotency key, and parks what it\n" +
			"cannot finish where an operator sees it, fixes it and replays it.",
		Example:           "  tollgate dev                 # a server, a dispatcher and tools to play with\n  tollgate tools ls\n  tollgate dlq groups",
		Version:           version(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: s.start,
		Args:              cobra.ArbitraryArgs,
		RunE:              helpOrUnknown,

		SuggestionsMinimumDistance: nearEnough,
	}
	c.SetVersionTemplate("tollgate {{.Version}}\n")
	s.globalFlags(c)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(err.Error(), c.CommandPath()+" --help")
	})
	c.AddGroup(&cobra.Group{ID: groupRun, Title: "Run it:"}, &cobra.Group{ID: groupCall, Title: "Call tools:"}, &cobra.Group{ID: groupOperate, Title: "Operate:"})
	c.SetHelpCommandGroupID(groupOperate)
	c.SetCompletionCommandGroupID(groupOperate)
	add := func(id string, commands ...*cobra.Command) {
		for _, sub := range commands {
			sub.GroupID = id
			c.AddCommand(sub)
		}
	}
	add(groupRun, s.devCommand(), s.serveCommand(), s.demoCommand(), s.configCommand(), s.consoleCommand())
	add(groupCall, s.callCommand(), s.resultCommand(), s.cancelCommand())
	add(groupOperate, s.statusCommand(), s.callsCommand(), s.runsCommand(), s.dlqCommand(), s.auditCommand(), s.replaysCommand(), s.toolsCommand(),
		s.verifyCommand(), s.backupCommand(), s.benchCommand(), s.settingsCommand(), s.versionCommand())
	c.AddCommand(exitCodesTopic())
	return c
}

const (
	groupRun     = "run"
	groupCall    = "call"
	groupOperate = "operate"
)

// group is a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: helpOrUnknown, SuggestionsMinimumDistance: nearEnough}
	c.AddCommand(subs...)
	return c
}

// nearEnough is how many letters may be wrong for a command to be suggested.
const nearEnough = 2

// helpOrUnknown runs a command that only holds others: a mistyped one is an error,
// not a help text.
func helpOrUnknown(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	try := c.CommandPath() + " --help"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		try = c.CommandPath() + " " + near[0]
	}
	return usage("unknown command "+quoted(args[0])+" for "+c.CommandPath(), try)
}
