package badinput

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// leastInputs is how many bad inputs the table promises.
const leastInputs = 60

// table is what was tried and where each ended.
type table struct {
	mu   sync.Mutex // guards rows
	rows []string
	seen map[string]bool
}

// add notes one input that ended as it must.
func (b *table) add(t *testing.T, kind, input, ended string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[kind+input] {
		t.Errorf("%s: %s stands in the table twice", kind, input)
	}
	b.seen[kind+input] = true
	clean := strings.NewReplacer("|", "\\|", "\n", " ").Replace
	b.rows = append(b.rows, fmt.Sprintf("| %s | %s | %s |", kind, clean(input), clean(ended)))
}

// expect notes the input, and fails unless the text of how it ended holds every part.
func (b *table) expect(t *testing.T, kind, input, ended string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(ended, p) {
			t.Errorf("%s: %s ended in %q, want %q", kind, input, ended, p)
		}
	}
	b.add(t, kind, input, ended)
}

func (b *table) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.rows, func(x, y string) int { // by kind
		return strings.Compare(strings.Split(x, "|")[1], strings.Split(y, "|")[1])
	})
	return fmt.Sprintf("| kind | input | where it ended |\n|---|---|---|\n%s\n\n%d inputs\n", strings.Join(b.rows, "\n"), len(b.rows))
}

// Whatever is put in, the process goes on to serve a good call, and the bad one ends
// where somebody can see it.
func TestEveryBadInputEndsSomewhere(t *testing.T) {
	b := &table{seen: map[string]bool{}}
	type part struct {
		name string
		f    func(*testing.T, *table)
	}
	t.Run("tools", func(t *testing.T) { // these wait most of the time
		for _, p := range []part{{"functions", badFunctions}, {"answers", badAnswers}, {"commands", badCommands}, {"replies", badReplies}, {"streams", badStreams}} {
			t.Run(p.name, func(t *testing.T) { t.Parallel(); p.f(t, b) })
		}
	})
	for _, p := range []part{{"messages", badMessages}, {"forgeries", forgeries}, {"configurations", badConfigurations}, {"files", badFiles}, {"clocks", steppedClocks}} {
		t.Run(p.name, func(t *testing.T) { p.f(t, b) })
	}
	t.Logf("\n%s", b)
	if len(b.rows) < leastInputs && !t.Failed() {
		t.Errorf("%d inputs, want at least %d", len(b.rows), leastInputs)
	}
	if path := os.Getenv("TOLLGATE_BAD_INPUT_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}
