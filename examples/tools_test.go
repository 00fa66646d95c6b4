package examples_test

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/client"
)

// The tool as a process of its own: a new run's key is another charge, and the same
// key the same one, by the ledger's answer and not by luck.
func TestChargeTool(t *testing.T) {
	url := serve(t, startTool(t))
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := client.Connect(nc, client.Within(20*time.Second), client.Write())
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]any{"customer": "ada", "cents": 1200}
	for _, tc := range []struct {
		run, id  string
		repeated bool
	}{{"run_1", "ch_1", false}, {"run_1", "ch_1", true}, {"run_2", "ch_2", false}} {
		o, err := c.Call(t.Context(), "charge", args, client.Run(tc.run), client.Key(client.StepKey(tc.run, "pay")))
		if err != nil {
			t.Fatal(err)
		}
		var row struct{ ID string }
		if err := json.Unmarshal(o.Structured, &row); err != nil || row.ID != tc.id || o.Repeated != tc.repeated {
			t.Errorf("%s: %s, repeated %v, %v; want %+v", tc.run, o.Structured, o.Repeated, err, tc)
		}
	}
}

// startTool builds and starts the tool and returns where it listens.
func startTool(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "tool")
	run(t, ".", nil, "go", "build", "-o", program, "./tools")
	cmd := exec.Command(program, "-listen", "127.0.0.1:0", "-db", filepath.Join(dir, "charges.db"))
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "POST ")
	if err != nil || !found {
		t.Fatalf("the tool said %q, %v", line, err)
	}
	return address
}
