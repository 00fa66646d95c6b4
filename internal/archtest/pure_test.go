package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure packages are functions of what they are given: a decision can then be
// tested for every state of the world, and made again inside a commit.
var pure = []string{"schemas", "budget", "dedupe", "dispatcher/gate", "dispatcher/classify"}

// impure are the packages a pure one does not import.
var impure = []string{
	"context", "os", "os/exec", "os/signal", "net", "net/http", "log", "log/slog", "math/rand", "math/rand/v2",
	"crypto/rand", "syscall", "runtime", "github.com/rs/zerolog",
}

// clock are the functions of package time that look at one.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// impurities names everything in s that depends on more than its arguments.
func impurities(s source) []string {
	var out []string
	names := map[string]string{} // local name to path
	for _, imp := range s.file.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		name := path.Base(p)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = p
		if slices.Contains(impure, p) && !mayName(s.path, p) {
			out = append(out, s.at(imp)+": imports "+p)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, s.at(n)+": starts a goroutine")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && names[x.Name] == "time" && slices.Contains(clock, n.Sel.Name) {
				out = append(out, s.at(n)+": time."+n.Sel.Name)
			}
		}
		return true
	})
	return out
}

// mayName lets classify see the error types of the transports it has tables for.
func mayName(file, imp string) bool {
	return strings.HasPrefix(file, "dispatcher/classify/") && slices.Contains([]string{"net", "syscall"}, imp)
}

func TestPurity(t *testing.T) {
	checked := map[string]bool{}
	for _, s := range sources(t) {
		dir := path.Dir(s.path)
		if s.test() || !slices.Contains(pure, dir) {
			continue
		}
		checked[dir] = true
		for _, problem := range impurities(s) {
			t.Error(problem)
		}
	}
	if len(checked) != len(pure) {
		t.Errorf("checked %v, want all of %v", checked, pure)
	}
}

func TestPurityRefuses(t *testing.T) {
	text := `package gate

import (
	"context"
	clock "time"
)

var _ context.Context

func f() { go f(); _ = clock.Now() }
`
	if got := impurities(parse(t, "dispatcher/gate/x.go", []byte(text))); len(got) != 3 {
		t.Errorf("an import, a goroutine and a clock: %q", got)
	}
}
