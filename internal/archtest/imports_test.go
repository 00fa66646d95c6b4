package archtest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "tollgate/"

// core is what decides and remembers, without anything that moves bytes.
var core = []string{"schemas", "budget", "dedupe", "dispatcher/classify", "dispatcher/gate", "dispatcher"}

// mayImport is the whole graph inside the module: imports point down. A package
// without a row fails, so that a new room is a decision.
var mayImport = map[string][]string{
	"schemas":             {},
	"budget":              {},
	"dedupe":              {"schemas", "budget"},
	"dedupe/bolt":         core,
	"dedupe/ledgertest":   core,
	"dispatcher/classify": {"schemas"},
	"dispatcher/gate":     {"schemas", "budget", "dedupe", "dispatcher/classify"},
	"dispatcher/breaker":  {},
	"dispatcher":          {"schemas", "budget", "dedupe", "dispatcher/classify", "dispatcher/gate", "dispatcher/breaker"},

	"tools":          with(core, "tools/schema"),
	"tools/schema":   core,
	"tools/function": core,
	"tools/http":     core,
	"tools/exec":     core,
	"tools/nats":     core,

	"consumer":   with(core, "deadletter"),
	"deadletter": core,
	"replays":    with(core, "deadletter"),
	"control":    with(core, "deadletter", "replays", "tools", "tools/schema", "internal/history"),

	"console": with(core, "control", "deadletter", "replays"),

	"client": {"schemas", "dedupe"},

	"internal/config":   with(core, "tools", "tools/schema", "tools/http", "tools/exec", "tools/function", "internal/web"), // it makes the executors; tools/nats comes as a function
	"internal/metrics":  with(core, "consumer", "deadletter", "dedupe/bolt"),
	"internal/history":  core,
	"internal/web":      {},
	"internal/embedded": {},
	"internal/owner":    {},
	"internal/natstest": {},
	"internal/archtest": {},

	// The rooms that put the others together; cmd/tollgate only calls them.
	"internal/verify":     anything,
	"internal/bench":      anything,
	"internal/demo":       anything,
	"internal/worldtest":  anything,
	"internal/e2e":        anything,
	"internal/model":      anything,
	"internal/contract":   anything,
	"internal/matrix":     anything,
	"internal/soak":       anything,
	"internal/badinput":   anything,
	"internal/soak/long":  anything,
	"internal/soak/flat":  {}, // numbers and how they are drawn
	"internal/cli":        anything,
	"internal/app":        anything,
	"client/tollgatetest": anything, // a whole Tollgate for users' own tests

	"deploy":            {}, // tests of the files in it
	"examples":          {},
	"examples/agent-go": {"client"},
	"examples/tools":    {}, // somebody else's service: it knows the contract and none of our code
	"cmd/tollgate":      anything,
}

// anything is the row of what stands on top. What stands on top is imported by
// nothing but itself: see assembly.
var anything = []string{"*"}

// assembly may be imported by assembly only.
var assembly = []string{"cmd/tollgate", "internal/cli", "internal/app", "internal/verify", "internal/bench", "internal/demo", "internal/soak", "internal/soak/long", "internal/worldtest", "client/tollgatetest"}

// edges may see nats.go; everybody else speaks of deliveries and settlements.
var edges = []string{
	"cmd/tollgate", "consumer", "control", "console", "deadletter", "tools/nats", "client", "client/tollgatetest", "examples/agent-go",
	"internal/embedded", "internal/owner", "internal/verify", "internal/bench", "internal/demo",
	"internal/natstest", "internal/cli", "internal/app", "internal/soak", "internal/soak/long", "internal/worldtest",
}

// onlyIn says which packages may see a dependency whose types must not spread.
var onlyIn = map[string][]string{
	"github.com/nats-io/nats.go":               edges,
	"github.com/nats-io/nats-server/v2":        {"internal/embedded", "internal/natstest", "internal/soak"},
	"go.etcd.io/bbolt":                         {"dedupe/bolt", "examples/tools"},
	"github.com/spf13/cobra":                   {"internal/cli", "cmd/tollgate"},
	"github.com/prometheus/client_golang":      {"internal/metrics"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"tools/schema"},
	"testing": {"internal/natstest", "internal/worldtest", "dedupe/ledgertest", "client/tollgatetest"},
}

func with(row []string, more ...string) []string { return append(slices.Clone(row), more...) }

// graph is every package of the module with its imports, tests aside.
func graph(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-tags", "soak", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	g := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		g[strings.TrimPrefix(f[0], module)] = f[1:]
	}
	return g
}

// wrong says what is wrong with one import, or "".
func wrong(from, imp string) string {
	to, ours := strings.CutPrefix(imp, module)
	row := mayImport[from]
	switch {
	case ours && slices.Contains(assembly, to) && !slices.Contains(assembly, from):
		return fmt.Sprintf("%s imports %s, which stands on top", from, to)
	case ours && !slices.Contains(row, to) && !slices.Contains(row, "*"):
		return fmt.Sprintf("%s must not import %s", from, to)
	}
	for dep, where := range onlyIn {
		if (imp == dep || strings.HasPrefix(imp, dep+"/")) && !slices.Contains(where, from) {
			return fmt.Sprintf("%s must not see %s", from, imp)
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	g := graph(t)
	if len(g["dispatcher/gate"]) == 0 {
		t.Fatal("go list does not show the gate: the walk is broken")
	}
	for from, imports := range g {
		if _, ok := mayImport[from]; !ok {
			t.Errorf("%s has no row in mayImport", from)
		}
		for _, imp := range imports {
			if problem := wrong(from, imp); problem != "" {
				t.Error(problem)
			}
		}
	}
}

// The rows themselves: what was decided must be what they say.
func TestImportRowsRefuse(t *testing.T) {
	for _, tc := range []struct{ from, imp string }{
		{"dispatcher/gate", "tollgate/dispatcher"},
		{"dispatcher", "tollgate/consumer"},
		{"dispatcher", "github.com/nats-io/nats.go/jetstream"},
		{"dedupe", "go.etcd.io/bbolt"},
		{"consumer", "go.etcd.io/bbolt"},
		{"consumer", "tollgate/internal/cli"},
		{"schemas", "tollgate/budget"},
		{"client", "tollgate/dispatcher"},
		{"tools/http", "testing"},
		{"tools/http", "tollgate/tools/exec"},
	} {
		if wrong(tc.from, tc.imp) == "" {
			t.Errorf("%s may import %s", tc.from, tc.imp)
		}
	}
	if problem := wrong("consumer", "github.com/nats-io/nats.go/jetstream"); problem != "" {
		t.Error(problem)
	}
}
