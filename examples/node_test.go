//go:build node

package examples_test

import (
	"os"
	"os/exec"
	"testing"

	"tollgate/schemas"
)

// An agent in ten lines, with a NATS client from npm and nothing of ours, publishes a
// call and reads its outcome. It needs Node and npm, so it has a make target of its own.
func TestNodeAgent(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Fatal("this test runs an agent in Node, as its users do: install node 18 or later and npm")
	}
	dir := t.TempDir() // what is installed stays out of the checkout
	if err := os.CopyFS(dir, os.DirFS("agent-node")); err != nil {
		t.Fatal(err)
	}
	run(t, dir, nil, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	url := serve(t, "http://127.0.0.1:1/charge")
	if out := run(t, dir, []string{"NATS_URL=" + url}, "node", "agent.mjs", "run-node"); out != said {
		t.Errorf("the agent said %q", out)
	}
	if o := result(t, url, "run-node", "run-node:1"); o.Status != schemas.Succeeded || len(o.Attempts) != 1 {
		t.Errorf("%+v", o)
	}
}
