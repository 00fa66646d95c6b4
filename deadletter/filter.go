package deadletter

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/schemas"
)

// Filter narrows letters: what is listed, and what a bulk operation acts on. Zero
// fields match everything, except State, which defaults to active.
type Filter struct {
	Tenant   string    `json:"tenant,omitempty"`
	Tool     string    `json:"tool,omitempty"`   // globs, joined by commas
	Reason   string    `json:"reason,omitempty"` // several are joined by commas
	Code     string    `json:"code,omitempty"`
	Class    string    `json:"class,omitempty"` // of the error: transient, permanent, unclassified
	Run      string    `json:"run,omitempty"`   // the path and everything below it
	Call     string    `json:"call,omitempty"`  // its beginning
	Key      string    `json:"key,omitempty"`
	Group    string    `json:"group,omitempty"`    // error fingerprint
	Error    string    `json:"error,omitempty"`    // substring, without regard to case
	ErrorRE  string    `json:"error_re,omitempty"` // regular expression, RE2
	Attempts string    `json:"attempts,omitempty"` // 3, >=3, <5
	Replayed string    `json:"replayed,omitempty"` // yes, no, or how often: 2, >=2
	Replay   string    `json:"replay,omitempty"`   // letters that died again in this bulk replay
	State    string    `json:"state,omitempty"`    // active, replaying, resolved, discarded, purged, all; several are joined by commas
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Sort     string    `json:"sort,omitempty"`   // seq, died, tool, reason, code, run, attempts, replayed; - first is downwards. "": -seq
	Limit    int       `json:"limit,omitempty"`  // 0: the verb's default
	Before   uint64    `json:"before,omitempty"` // cursor: what follows the letter of this sequence in the order asked for
	After    uint64    `json:"after,omitempty"`  // only letters stored after this sequence
}

// classes are those of errors.
var classes = []string{"transient", "permanent", "unclassified"}

var states = []string{"active", "replaying", "resolved", "discarded", "purged", "all"}

// Check reports everything that keeps a filter from matching what was meant.
func (f Filter) Check() error {
	_, err := f.compile()
	return err
}

// matcher is a filter made ready for many letters.
type matcher struct {
	Filter
	tools, reasons     []string
	states             []string // none: all
	message            *regexp.Regexp
	attempts, replayed bound
	lower              string // Error, in lower case
}

func (f Filter) compile() (*matcher, error) {
	m := &matcher{Filter: f, tools: list(f.Tool), reasons: list(f.Reason), lower: strings.ToLower(f.Error)}
	m.states = list(cmp.Or(f.State, string(schemas.LetterActive)))
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, t := range m.tools {
		if _, err := path.Match(t, ""); err != nil {
			problem("tool %q is not a glob: %w", t, err)
		}
	}
	for _, r := range m.reasons {
		if !slices.Contains(schemas.Reasons, r) {
			problem("reason %q is unknown; the reasons are %s", r, strings.Join(schemas.Reasons, ", "))
		}
	}
	if f.Class != "" && !slices.Contains(classes, f.Class) {
		problem("class %q is unknown; the classes are %s", f.Class, strings.Join(classes, ", "))
	}
	for _, state := range m.states {
		if !slices.Contains(states, state) {
			problem("state %q is unknown; the states are %s", state, strings.Join(states, ", "))
		}
	}
	if slices.Contains(m.states, "all") {
		m.states = nil
	}
	var err error
	if m.message, err = regexp.Compile(f.ErrorRE); err != nil {
		problem("the regular expression for errors: %w", err)
	}
	if m.attempts, err = parseBound(f.Attempts); err != nil {
		problem("attempts %w", err)
	}
	if m.replayed, err = parseBound(map[string]string{"yes": ">=1", "no": "0"}[f.Replayed] + skip(f.Replayed, "yes", "no")); err != nil {
		problem("replayed %w, yes or no", err)
	}
	if orderBy(f.Sort) == nil {
		problem("cannot sort by %q; try one of %s", f.Sort, strings.Join(SortKeys, ", "))
	}
	return m, errors.Join(problems...)
}

func skip(text string, words ...string) string {
	if slices.Contains(words, text) {
		return ""
	}
	return text
}

// list splits what is joined by commas.
func list(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// bound is a condition on a number. The zero bound holds for every one.
type bound struct {
	op string
	n  int
}

func parseBound(text string) (bound, error) {
	if text == "" {
		return bound{}, nil
	}
	op := text[:len(text)-len(strings.TrimLeft(text, "<>="))]
	n, err := strconv.Atoi(strings.TrimSpace(text[len(op):]))
	if err != nil || n < 0 || !slices.Contains([]string{"", "=", "==", ">", ">=", "<", "<="}, op) {
		return bound{}, fmt.Errorf("%q is not a number or a condition such as >=3", text)
	}
	return bound{cmp.Or(op, "="), n}, nil
}

func (b bound) holds(n int) bool {
	switch b.op {
	case ">":
		return n > b.n
	case ">=":
		return n >= b.n
	case "<":
		return n < b.n
	case "<=":
		return n <= b.n
	case "":
		return true
	}
	return n == b.n
}

// match reports whether a letter in the given state is meant. What is cheap and
// leaves out most comes first.
func (m *matcher) match(e *entry, state schemas.LetterState) bool {
	k := e.kind.Value()
	return (len(m.states) == 0 || slices.Contains(m.states, string(state))) && e.seq > m.After && m.ofKind(&k) &&
		(m.Call == "" || strings.HasPrefix(e.fate.call, m.Call)) && (m.Key == "" || m.Key == e.key) && m.ofRun(e.run.Value()) &&
		(m.Since.IsZero() || !e.died.Before(m.Since)) && (m.Until.IsZero() || e.died.Before(m.Until)) &&
		m.attempts.holds(e.attempts) && m.replayed.holds(e.generation) && m.says(e)
}

func (m *matcher) ofKind(k *kind) bool {
	return (m.Group == "" || m.Group == k.fingerprint) && (m.Tenant == "" || m.Tenant == k.tenant) &&
		(len(m.reasons) == 0 || slices.Contains(m.reasons, k.reason)) && (m.Code == "" || m.Code == k.code) &&
		(m.Class == "" || m.Class == k.class) && (m.Replay == "" || m.Replay == k.replay) &&
		(len(m.tools) == 0 || slices.ContainsFunc(m.tools, func(glob string) bool { ok, _ := path.Match(glob, k.tool); return ok }))
}

func (m *matcher) ofRun(run string) bool {
	return m.Run == "" || m.Run == run || strings.HasPrefix(run, m.Run+"/")
}

func (m *matcher) says(e *entry) bool {
	if m.lower == "" && m.ErrorRE == "" {
		return true
	}
	text := e.message
	return strings.Contains(strings.ToLower(text), m.lower) && m.message.MatchString(text)
}
