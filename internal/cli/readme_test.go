package cli_test

import (
	"os"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// varies is what differs between two runs of the README's transcript.
var varies = regexp.MustCompile(`[0-9a-v]{26}|g-[0-9a-f]{10}|\d{4}-\d\d-\d\dT[0-9:.]+Z|\b\d+(\.\d+)?(ms|µs|s)\b|(\d+m )?\d+(\.\d+)?s ago`)

func steady(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.Join(strings.Fields(varies.ReplaceAllString(line, "*")), " "); line != "" && !strings.HasPrefix(line, "next:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// transcript runs the README's console session and compares what it says with what
// the commands say: transcript README.
func transcript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: transcript FILE")
	}
	text, err := os.ReadFile(args[0])
	ts.Check(err)
	_, text2, found := strings.Cut(string(text), "```console\n")
	session, _, closed := strings.Cut(text2, "```")
	if !found || !closed {
		ts.Fatalf("%s has no console session", args[0])
	}
	steps := strings.Split("\n"+session, "\n$ tollgate ")[1:]
	if len(steps) < 5 {
		ts.Fatalf("only %d commands in %s", len(steps), args[0])
	}
	for _, step := range steps {
		command, want, _ := strings.Cut(step, "\n")
		var got string
		if err := ts.Exec("tollgate", words(command)...); err != nil {
			got = "[exit " + strings.TrimPrefix(err.Error(), "exit status ") + "]"
		}
		got = ts.ReadFile("stdout") + ts.ReadFile("stderr") + got
		if d := cmp.Diff(steady(want), steady(got)); d != "" {
			ts.Fatalf("$ tollgate %s\nthe README says (-), the command says (+):\n%s", command, d)
		}
	}
}

// words splits a command as a shell does, for single quotes.
func words(s string) []string {
	var out []string
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}
