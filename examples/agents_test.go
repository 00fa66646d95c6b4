package examples_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tollgate/schemas"
)

const said = `succeeded {"text":"hello"}` + "\n"

// The README shows the agent as it is here, in ten lines.
func TestReadmeShowsTheNodeAgent(t *testing.T) {
	source, err := os.ReadFile("agent-node/agent.mjs")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(source, []byte("\n")); lines != 10 || !bytes.Contains(readme, source) {
		t.Errorf("the agent has %d lines, and the README shows it: %t", lines, bytes.Contains(readme, source))
	}
}

// The lock file names no place to download from: npm asks the registry it is set to.
func TestNodeAgentIsPinned(t *testing.T) {
	lock, err := os.ReadFile("agent-node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte(`"resolved"`)) || !bytes.Contains(lock, []byte(`"integrity"`)) {
		t.Error("package-lock.json must pin by hash and name no host: run npm install in examples/agent-node, where .npmrc says so")
	}
}

func TestGoAgent(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agent-go")
	run(t, ".", nil, "go", "build", "-o", program, "./agent-go")
	url := serve(t, "http://127.0.0.1:1/charge")
	if out := run(t, ".", []string{"NATS_URL=" + url}, program, "run-go"); out != said {
		t.Errorf("the agent said %q", out)
	}
	if o := result(t, url, "run-go", "run-go:1"); o.Status != schemas.Succeeded || o.Run != "run-go" {
		t.Errorf("%+v", o)
	}
}

// run runs a program and returns what it printed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}
