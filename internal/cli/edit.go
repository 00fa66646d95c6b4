package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

// edit is one edit command: a dry run whose diff is shown, a question, and the edit.
type edit struct {
	*shell
	query     control.EditQuery
	set       []string
	arguments string
	editor    bool
	yes       bool
}

func (s *shell) editCommand() *cobra.Command {
	e := &edit{shell: s}
	c := &cobra.Command{Use: "edit ID --why TEXT", Short: "Ask for something else instead: a new call with other arguments", Args: exactly(1, "a dead letter's ID"),
		ValidArgsFunction: s.lettersIn(string(schemas.LetterActive)),
		Long: "Edit makes a new call of a dead letter, with other arguments: it has a key of its own, runs in the same run and is\n" +
			"charged as any call. The letter is resolved and names the call; the call names the letter. The same edit made twice\n" +
			"is one call. The configuration has to allow it: dead_letters: { allow_edit: true }.\n\n" +
			"--set puts a JSON value at a place of the arguments and leaves the rest byte for byte as it was; --args replaces\n" +
			"them all. Without either, on a terminal, the arguments are opened in $VISUAL or $EDITOR, again and again until the\n" +
			"tool's schema has nothing against them. A " + deadletter.Mask + " that is left in the place of a redacted value keeps the value.",
		Example: "  tollgate dlq edit 7qx4t9kd --set /amount_cents=500 --set '/to=\"alice\"' --why 'INC-412: wrong currency'\n" +
			"  tollgate dlq edit 7qx4t9kd --args @fixed.json --dry-run\n  tollgate dlq edit 7qx4t9kd --why INC-412",
		RunE: func(c *cobra.Command, args []string) error {
			e.query.ID = args[0]
			return e.run(c.Context())
		}}
	f := c.Flags()
	f.StringArrayVar(&e.set, "set", nil, "/pointer=JSON: put a value at a place; may be given several times")
	f.StringVar(&e.arguments, "args", "", "all the arguments: JSON, @file, or - for standard input")
	f.BoolVar(&e.editor, "editor", false, "open them in $VISUAL or $EDITOR, also where there is no terminal")
	f.StringVar(&e.query.Why, "why", "", "why, for the audit; required but for a dry run")
	f.StringVar(&e.query.Why, "reason", "", "the same as --why")
	f.DurationVar(&e.query.Window, "deadline", 0, "time the new call has from now (default the old call's window)")
	f.BoolVarP(&e.query.DryRun, "dry-run", "n", false, "show the diff and what stands in the way, and do nothing")
	f.BoolVarP(&e.yes, "yes", "y", false, "do not ask")
	for _, flag := range []string{"set", "why", "reason", "deadline"} {
		complete(c, flag)
	}
	c.MarkFlagsMutuallyExclusive("why", "reason")
	c.MarkFlagsMutuallyExclusive("editor", "set")
	c.MarkFlagsMutuallyExclusive("editor", "args")
	return c
}

func (e *edit) run(ctx context.Context) error {
	if err := e.read(); err != nil {
		return err
	}
	dry := e.query.DryRun
	e.query.DryRun = true
	var r control.EditReport
	var err error
	if e.editor {
		r, err = e.byHand(ctx)
	} else {
		r, err = ask[control.EditReport](ctx, e.shell, control.VerbEdit, e.query)
	}
	if err != nil {
		return err
	}
	// What stands in the way ends the command, unless the decision has been made: then
	// it is sent, for the dispatcher to refuse it and to write that down.
	if err := e.show(&r, dry); dry || err != nil && !e.yes {
		return err
	}
	if err := e.confirm(ctx, fmt.Sprintf("Resolve %s and call %s in run %s with these arguments", r.ID, r.Tool, oneLine(r.Run)), 1, false, e.yes || r.Again); err != nil {
		return err
	}
	e.query.DryRun = false
	done, err := ask[control.EditReport](ctx, e.shell, control.VerbEdit, e.query)
	if err != nil {
		return err
	}
	return e.tell(&done)
}

// read checks the flags together.
func (e *edit) read() error {
	switch {
	case e.query.Why == "" && !e.query.DryRun:
		return usage("an edit needs a reason", "--why 'INC-412: wrong currency'")
	case e.query.Window < 0:
		return usage("--deadline must not be negative", "--deadline 5m")
	case e.query.Window > 0 && e.query.Window < time.Second:
		return usage("--deadline "+e.query.Window.String()+" leaves no time for anything", "--deadline 5m")
	}
	if e.arguments != "" {
		body, err := e.shell.arguments([]string{e.arguments})
		if err != nil {
			return err
		}
		if err := valid(body); err != nil {
			return usage("--args "+err.Error(), `--args '{"amount_cents":500}', --args @file or --args -`)
		}
		e.query.Arguments = body
	}
	for _, text := range e.set {
		pointer, value, ok := strings.Cut(text, "=")
		if !ok || !strings.HasPrefix(pointer, "/") || !json.Valid([]byte(value)) {
			return usage("--set "+quoted(text)+" is not a JSON pointer, = and a JSON value", `--set /amount_cents=500, or of a text --set '/to="alice"'`)
		}
		e.query.Set = append(e.query.Set, deadletter.Assignment{Pointer: pointer, Value: json.RawMessage(value)})
	}
	if e.arguments != "" || len(e.set) > 0 || e.editor {
		return nil
	}
	if !e.inTTY || e.noInput {
		return usage("nothing says what to change, and there is no terminal to ask on", "--set /pointer=JSON, --args or --editor")
	}
	e.editor = true
	return nil
}

// show prints the diff and, of a dry run, what stands in the way, which is the command's
// end.
func (e *edit) show(r *control.EditReport, dry bool) error {
	if dry && e.json {
		if err := e.printJSON("Edit", r); err != nil {
			return err
		}
	} else if !e.json {
		e.printDiff(r.Diff)
	}
	if len(r.Problems) > 0 {
		return problems(r.Problems)
	}
	if !dry || e.json {
		return nil
	}
	if r.Again {
		e.line("DRY RUN: this edit was made already; the call is %s", r.Call)
		return nil
	}
	e.line("DRY RUN: nothing was changed")
	e.line("  would resolve  %s", r.ID)
	e.line("  would call     %s as %s in run %s, until %s", r.Tool, r.Call, oneLine(r.Run), e.at(r.Deadline))
	e.say("do it: the same without --dry-run, with --why")
	return nil
}

// problems is the first of what stands in the way, and the others behind it.
func problems(ps []control.Problem) error {
	f := &fault{code: failureCode(ps[0].Code), what: ps[0].What, try: ps[0].Try}
	var more []string
	for _, p := range ps[1:] {
		more = append(more, p.What)
	}
	f.why = strings.Join(more, "\n")
	return f
}

func (e *edit) printDiff(diff string) {
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(safe(line), "\n")
		switch {
		case strings.HasPrefix(line, "+"):
			line = e.tint(green, line)
		case strings.HasPrefix(line, "-"):
			line = e.tint(red, line)
		}
		fmt.Fprintln(e.stdout, line)
	}
}

// tint colours a line of the answer, which paint does for lines beside it.
func (e *edit) tint(color, line string) string {
	if !e.outTTY && e.color != "always" {
		return line
	}
	return e.paint(color, line)
}

func (e *edit) tell(r *control.EditReport) error {
	if e.json {
		return e.printJSON("Edit", r)
	}
	switch {
	case r.Again:
		e.line("edited before: the call is %s", r.Call)
	case r.Published:
		e.line("edited %s: the call is %s", r.ID, r.Call)
	default:
		e.line("edited %s: the call %s is owed; its stream did not take it yet, and it is tried again", r.ID, r.Call)
	}
	e.next("tollgate calls show "+e.short(r.Call), "tollgate result "+r.Call+" --wait 30s")
	return nil
}
