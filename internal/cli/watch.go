package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

// watch tells of dead letters as they come, and may run a command for each.
type watch struct {
	*shell
	filter letterFilter
	every  time.Duration
	most   int
	exec   string
}

func (s *shell) watchCommand() *cobra.Command {
	w := &watch{shell: s}
	c := &cobra.Command{Use: "watch", Short: "Tell of new dead letters as they come", Args: none,
		Long: "Watch prints a line for every letter that comes from now on and matches; with --json an object a line.\n" +
			"--exec runs a shell command for each, one after the other, with the letter as JSON on its standard input and\n" +
			"its ID, tool and reason in $TOLLGATE_LETTER, $TOLLGATE_TOOL and $TOLLGATE_REASON. A command that fails is told\n" +
			"of and does not end the watch. A dispatcher that is away is waited for.",
		Example: "  tollgate dlq watch --reason unknown_outcome\n  tollgate dlq watch --tool 'pay.*' --exec 'notify-send \"$TOLLGATE_TOOL\" \"$TOLLGATE_LETTER\"'",
		RunE:    func(c *cobra.Command, _ []string) error { return w.run(c.Context()) }}
	w.filter.flags(c)
	f := c.Flags()
	f.DurationVar(&w.every, "every", time.Second, "how often to look")
	f.IntVar(&w.most, "count", 0, "end after so many letters (default never)")
	f.StringVar(&w.exec, "exec", "", "shell command to run for each letter")
	return c
}

func (w *watch) run(ctx context.Context) error {
	if w.every <= 0 || w.most < 0 {
		return usage("--every and --count must be more than nothing", "--every 1s")
	}
	if err := w.filter.read(w.shell); err != nil {
		return err
	}
	f := w.filter.Filter
	f.Sort, f.Limit = "seq", 100
	p, err := ask[deadletter.Page](ctx, w.shell, control.VerbLetterList, deadletter.Filter{State: "all", Limit: 1})
	if err != nil {
		return err
	}
	f.After = p.Last
	w.say("watching; Ctrl-C ends it")
	seen := 0
	for {
		p, err := w.look(ctx, &f)
		if err != nil {
			return err
		}
		for i := range p.Letters {
			if err := w.tell(ctx, &p.Letters[i]); err != nil {
				return err
			}
			if seen++; seen == w.most {
				return nil
			}
		}
		if p.Next != 0 { // there are more
			f.After = p.Next
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(w.every):
		}
	}
}

// look asks for what has come, and moves on. A stream that was made again begins with
// low sequences: then what is in it is new.
func (w *watch) look(ctx context.Context, f *deadletter.Filter) (deadletter.Page, error) {
	p, err := ask[deadletter.Page](ctx, w.shell, control.VerbLetterList, *f)
	if err != nil && ctx.Err() == nil {
		problem := w.explain(ctx, err)
		if problem.code != exitUnreachable {
			return p, err
		}
		w.say("%s; looking again", problem.what)
		w.close()
		w.nc = nil
		return deadletter.Page{}, nil
	}
	if err == nil && p.Next == 0 {
		f.After = p.Last
	}
	return p, err
}

func (w *watch) tell(ctx context.Context, l *schemas.Letter) error {
	body, err := json.Marshal(inUTC(*l))
	if err != nil {
		return err
	}
	if w.json {
		fmt.Fprintf(w.stdout, "%s\n", body)
	} else {
		w.line("%s  %s  %s  %s  %s  run %s  %s", w.at(l.DiedAt), l.ID, l.Tool, l.Reason, l.Code, oneLine(l.Run), oneLine(w.clipped(l.Message)))
	}
	if w.exec == "" {
		return nil
	}
	c := exec.CommandContext(ctx, "/bin/sh", "-c", w.exec)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(body), w.stdout, w.stderr
	c.Env = append(os.Environ(), "TOLLGATE_LETTER="+l.ID, "TOLLGATE_TOOL="+l.Tool, "TOLLGATE_REASON="+l.Reason)
	if err := c.Run(); err != nil && ctx.Err() == nil {
		w.say("the command failed for %s: %v", l.ID, err)
	}
	return nil
}
