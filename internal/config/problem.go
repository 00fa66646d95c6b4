package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration, or only doubtful.
type Problem struct {
	File    string // or the environment variable
	Line    int    // 0: no line
	Column  int
	Path    string // such as policies.interactive.attempts
	Message string
	Warning bool // doubtful; the configuration works
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if p.Warning {
		b.WriteString("  warning  ")
	} else {
		b.WriteString("  error  ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String() + p.Message
}

// Error is everything that is wrong with a configuration, one problem a line.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sortProblems puts them in the order of the file.
func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

// place is where a key and its value stand.
type place struct {
	file               string
	line, column       int
	keyLine, keyColumn int
}

// suggest returns the candidate closest to name, or "" when none is close: at most
// half of the letters differ.
func suggest(name string, candidates []string) string {
	best, least := "", 0
	for _, c := range candidates {
		d := distance(name, c)
		if d <= max(len(name), len(c))/2 && (best == "" || d < least) {
			best, least = c, d
		}
	}
	return best
}

// didYouMean words a suggestion, or says what there is.
func didYouMean(name string, candidates []string) string {
	if s := suggest(name, candidates); s != "" {
		return " (did you mean " + s + "?)"
	}
	if len(candidates) == 0 {
		return ""
	}
	return " (there are: " + strings.Join(candidates, ", ") + ")"
}

// distance is the number of letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
