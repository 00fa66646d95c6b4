package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// The most lines before a file or function has to be split.
const (
	maxFile = 400
	maxFunc = 60
)

// source is one parsed file.
type source struct {
	path string // from the root of the module
	fset *token.FileSet
	file *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) at(n ast.Node) string { return s.fset.Position(n.Pos()).String() }

func parse(t *testing.T, path string, text []byte) source {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return source{path, fset, f}
}

// sources parses every Go file of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		all = append(all, parse(t, filepath.ToSlash(rel), text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found %d Go files: the walk is broken", len(all))
	}
	return all
}

// long names the file and every function that is too long.
func long(s source) []string {
	if s.test() {
		return nil
	}
	var out []string
	if n := s.fset.File(s.file.Pos()).LineCount(); n > maxFile {
		out = append(out, s.path+": more than 400 lines: a file is one idea")
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > maxFunc {
			out = append(out, s.at(f)+": "+f.Name.Name+" is longer than 60 lines")
		}
	}
	return out
}

// unfinished names promises left in the code and tests that do not run.
func unfinished(s source) []string {
	var out []string
	for _, g := range s.file.Comments {
		for _, c := range g.List {
			for _, word := range []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"} {
				if strings.Contains(c.Text, word) {
					out = append(out, s.at(c)+": "+word)
				}
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
			out = append(out, s.at(sel)+": a test that does not run proves nothing")
		}
		return true
	})
	return out
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		for _, problem := range long(s) {
			t.Error(problem)
		}
	}
}

func TestNothingUnfinished(t *testing.T) {
	for _, s := range sources(t) {
		for _, problem := range unfinished(s) {
			t.Error(problem)
		}
	}
}

func TestSourceRulesRefuse(t *testing.T) {
	body := strings.Repeat("\tx++\n", maxFunc)
	if got := long(parse(t, "a.go", []byte("package a\n\nfunc f(x int) {\n"+body+"}\n"))); len(got) != 1 {
		t.Errorf("a function of %d lines: %q", maxFunc+2, got)
	}
	if got := long(parse(t, "a.go", []byte("package a\n"+strings.Repeat("\n", maxFile)))); len(got) != 1 {
		t.Errorf("a file of %d lines: %q", maxFile+1, got)
	}
	text := "package a\n\n// TO" + "DO: later\nfunc f(t T) { t.Skip(\"no server\") }\n"
	if got := unfinished(parse(t, "a_test.go", []byte(text))); len(got) != 2 {
		t.Errorf("a promise and a skip: %q", got)
	}
}
