package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ReadAxe reads axe-core, which axe.sh has put there.
func ReadAxe() (string, error) {
	script, err := os.ReadFile(filepath.Join(root(), "dist", "axe.min.js"))
	if err != nil {
		return "", fmt.Errorf("axe-core is missing; browser/axe.sh fetches it: %w", err)
	}
	return string(script), nil
}

// runAxe asks for what stands against the rules of WCAG 2.2, levels A and AA, and
// against what is commonly held to be good.
const runAxe = `axe.run(document, {
	runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"]
}).then(found => found.violations.map(v => ({
	Rule: v.id, Help: v.help,
	Where: v.nodes.slice(0, 5).map(n => n.target.join(" ") + " " + n.html.slice(0, 200) + "\n      " + (n.failureSummary || "").replaceAll("\n", "\n      ")),
})))`

// Violation is one rule that a page breaks, and where.
type Violation struct {
	Rule, Help string
	Where      []string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s\n    %s", v.Rule, v.Help, strings.Join(v.Where, "\n    "))
}

// Axe looks at the page with axe-core.
func (t *Tab) Axe(script string) ([]Violation, error) {
	there, err := Eval[bool](t, `"axe" in window`)
	if err == nil && !there {
		_, err = Eval[bool](t, script+"; true")
	}
	if err != nil {
		return nil, err
	}
	return Eval[[]Violation](t, runAxe)
}
