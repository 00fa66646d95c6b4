package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"tollgate/control"
)

// byHand opens the arguments in an editor until nothing but what the editor cannot
// change stands in the way.
func (e *edit) byHand(ctx context.Context) (control.EditReport, error) {
	q := e.query
	q.Text = true
	r, err := ask[control.EditReport](ctx, e.shell, control.VerbEdit, q)
	if err != nil {
		return r, err
	}
	if fixed := fixedProblems(&r); len(fixed) > 0 {
		return r, problems(fixed)
	}
	if r.Arguments == "" {
		return r, &fault{code: exitUsage, what: "the arguments are too large to be edited by hand", try: "--set /pointer=JSON, or tollgate dlq export, and --args @file"}
	}
	first := []byte(r.Arguments)
	for text := first; ; {
		if text, err = e.open(ctx, r.ID, text); err != nil {
			return r, err
		}
		if bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(first)) {
			return r, &fault{code: exitUnconfirmed, what: "nothing was changed in the editor; nothing was done"}
		}
		trouble := valid(text)
		if trouble == nil {
			e.query.Arguments = text
			if r, err = ask[control.EditReport](ctx, e.shell, control.VerbEdit, e.query); err != nil {
				return r, err
			}
			if len(r.Problems) == 0 || len(fixedProblems(&r)) > 0 {
				return r, nil
			}
			trouble = problems(r.Problems)
		}
		if err := e.onceMore(ctx, trouble); err != nil {
			return r, err
		}
	}
}

// fixedProblems are those that no other arguments would change.
func fixedProblems(r *control.EditReport) (out []control.Problem) {
	for _, p := range r.Problems {
		if p.Code != 422 {
			out = append(out, p)
		}
	}
	return out
}

// onceMore shows what is wrong with the arguments and waits for the word to open them
// again. With nobody to ask it is the command's end.
func (e *edit) onceMore(ctx context.Context, trouble error) error {
	var f *fault
	if !errors.As(trouble, &f) {
		f = usage("the edited text "+trouble.Error(), "correct it in the editor")
	}
	if !e.inTTY || e.noInput {
		return f
	}
	fmt.Fprintf(e.stderr, "not yet: %s\n", safe(f.what))
	if f.why != "" {
		fmt.Fprintln(e.stderr, safe(f.why))
	}
	fmt.Fprint(e.stderr, "Enter opens the editor again, q gives up: ")
	answer, err := e.readLine(ctx)
	if errors.Is(err, errInterrupted) {
		return err
	}
	if err != nil || strings.HasPrefix(strings.ToLower(answer), "q") {
		return &fault{code: exitUnconfirmed, what: "given up; nothing was done", cause: err}
	}
	return nil
}

// open lets the operator's editor change a text.
func (e *edit) open(ctx context.Context, id string, text []byte) ([]byte, error) {
	f, err := os.CreateTemp("", "tollgate-"+id+"-*.json") // for our eyes only, and gone afterwards
	if err != nil {
		return nil, fmt.Errorf("make a file for the editor: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("write the file for the editor: %w", err)
	}
	editor := cmpOr(e.env("VISUAL"), e.env("EDITOR"), "vi")
	c := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", f.Name()) // it may have arguments of its own
	c.Stdout, c.Stderr = e.stderr, e.stderr                                   // standard output is the answer's
	if terminal, ok := e.stdin.(*os.File); ok {
		c.Stdin = terminal
	}
	if e.outTTY {
		c.Stdout = e.stdout
	}
	if err := c.Run(); err != nil {
		return nil, &fault{code: exitFailure, what: "the editor " + quoted(editor) + " did not end well; nothing was done", why: err.Error(), try: "another $EDITOR, or --set /pointer=JSON", cause: err}
	}
	edited, err := os.ReadFile(f.Name()) // by name: most editors write a new file
	if err != nil {
		return nil, fmt.Errorf("read what the editor has left: %w", err)
	}
	return edited, nil
}

// valid says what keeps a text from being JSON, and where.
func valid(body []byte) error {
	var v any
	err := json.Unmarshal(body, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("is not JSON in line %d: %w", 1+bytes.Count(body[:min(int(syntax.Offset), len(body))], []byte("\n")), err)
	}
	return err
}
