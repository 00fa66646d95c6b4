package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// The editor is opened again until the schema has nothing against the arguments, each
// time with what was left in it, and the edit is asked for once more.
func TestTheEditorIsOpenedAgainUntilTheArgumentsWillDo(t *testing.T) {
	for name, tc := range map[string]struct {
		answers string // on the terminal
		code    int
		runs    int // of the editor
		state   schemas.LetterState
	}{
		"mended":      {"\n\ny\n", exitOK, 3, schemas.LetterResolved},
		"given up":    {"\nq\n", exitUnconfirmed, 2, schemas.LetterActive},
		"not wanted":  {"\n\nn\n", exitUnconfirmed, 3, schemas.LetterActive},
		"hung up":     {"", exitUnconfirmed, 1, schemas.LetterActive},
		"hung up now": {"\n\n", exitUnconfirmed, 3, schemas.LetterActive},
	} {
		t.Run(name, func(t *testing.T) {
			editable(t, func(t *testing.T, w *worldtest.World, id string) {
				dir := t.TempDir()
				script := filepath.Join(dir, "editor")
				// The first leaves what the schema is against, the second no JSON, the third what will do.
				text := `set -e; echo >> ` + dir + `/runs; case $(wc -l < ` + dir + `/runs) in 1) sed -i s/13/0/ "$2";; 2) grep -q '"amount": 0' "$2"; echo '{' > "$2";; 3) grep -q '^{$' "$2"; echo '{"amount": 14}' > "$2";; esac`
				if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				var out, said bytes.Buffer
				s := &shell{stdin: iotest.OneByteReader(strings.NewReader(tc.answers)), stdout: &out, stderr: &said, inTTY: true, now: time.Now, timeout: 10 * time.Second,
					env: func(name string) string { return map[string]string{"EDITOR": "sh " + script + " -x"}[name] }, nc: w.NC, subjects: w.Ctl.Subjects, started: true}
				e := &edit{shell: s}
				e.query.ID, e.query.Why = id, "by hand"
				code := exitOK
				var f *fault
				if err := e.run(t.Context()); errors.As(err, &f) {
					code = f.code
				} else if err != nil {
					t.Fatal(err)
				}
				runs, err := os.ReadFile(filepath.Join(dir, "runs"))
				if l := w.Letter(id); err != nil || code != tc.code || len(runs) != tc.runs || l.State != tc.state {
					t.Errorf("exit %d after the editor ran %d times, the letter is %s; want %+v\n%s%s", code, len(runs), l.State, tc, out.String(), said.String())
				}
				if !strings.Contains(said.String(), "not yet: ") || !strings.Contains(said.String(), "/amount: ") {
					t.Errorf("what was wrong is not said: %s", said.String())
				}
				if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "tollgate-"+id+"-*")); len(left) > 0 {
					t.Errorf("files are left: %v", left)
				}
			})
		})
	}
}

// editable runs f with a dead letter that may be edited.
func editable(t *testing.T, f func(t *testing.T, w *worldtest.World, id string)) {
	tools := `  pay.it: { function: pay, effect: write, concurrency: 1, policies: [quick], schema: { type: object, properties: { amount: { type: integer, minimum: 1 } } } }
`
	pay := func(_ context.Context, in dispatcher.Invocation) (any, error) {
		if strings.Contains(string(in.Arguments), "13") {
			return nil, worldtest.Broken()
		}
		return "paid", nil
	}
	worldtest.Bubble(t, tools, map[string]function.Func{"pay": pay}, func(t *testing.T, w *worldtest.World) {
		w.Again(func() { w.Config += "dead_letters: { allow_edit: true }\n" })
		m := worldtest.Msg{Tool: "pay.it", Run: "r", Key: "k", Body: `{"amount":13}`}
		w.Publish(m)
		w.Outcome(m, 10*time.Second)
		w.Drained(10 * time.Second)
		f(t, w, w.Letters(deadletter.Filter{}).Letters[0].ID)
	})
}
