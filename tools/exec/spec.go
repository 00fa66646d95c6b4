package exec

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
)

// DefaultMaxResult leaves room for the outcome around a result in a NATS message
// of 1 MiB.
const DefaultMaxResult = 768 << 10

// Spec is one command as the catalogue declares it.
type Spec struct {
	Command []string          // program and fixed arguments; a bare name is looked up in PATH
	Args    []string          // further arguments: text, or text with one {/json/pointer} into the call's arguments
	Env     map[string]string // beside PATH, LANG and what the attempt is told; secrets are already resolved
	Dir     string            // working directory; "" is the dispatcher's

	Rules     classify.Rules
	MaxResult int64         // bytes of standard output; 0 is DefaultMaxResult
	Grace     time.Duration // from SIGTERM to SIGKILL; 0 is 1 s
}

// base is the whole environment of a command, beside its own and the attempt's (HOME
// is not in it: a program that needs one gets it from Env). The
// dispatcher's environment holds credentials and is not passed on.
var base = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}

// environment is what the attempt is told: the headers that other tools get, as
// variables of the same names in capitals.
func environment(in dispatcher.Invocation) []string {
	env := slices.Clone(base)
	for name, values := range in.Header() {
		env = append(env, strings.ReplaceAll(strings.ToUpper(name), "-", "_")+"="+values[0])
	}
	return env
}

// compile checks the spec, reports every problem, and prepares what each attempt needs.
func (s Spec) compile() (*Executor, error) {
	var problems []error
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("exec tool: "+format, args...))
	}
	e := &Executor{}
	if len(s.Command) == 0 || s.Command[0] == "" {
		add("there is no command: give the program and its arguments as a list")
	} else if e.path = s.Command[0]; !strings.Contains(e.path, "/") {
		var err error
		if e.path, err = exec.LookPath(s.Command[0]); err != nil {
			add("%s is not in PATH: install it, or give its full path", s.Command[0])
		}
	}
	for _, arg := range slices.Concat(s.Command, s.Args) {
		if strings.Contains(arg, "\x00") {
			add("an argument holds a zero byte: remove it")
		}
	}
	for i, arg := range s.Command {
		if i > 0 {
			e.args = append(e.args, template{prefix: arg})
		}
	}
	for _, arg := range s.Args {
		t, err := parseTemplate(arg)
		if err != nil {
			problems = append(problems, err)
		}
		e.args = append(e.args, t)
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			add("%q is not a variable: use letters, digits and _", name)
		}
		if strings.HasPrefix(name, "TOLLGATE_") || slices.Contains([]string{"IDEMPOTENCY_KEY", "TRACEPARENT", "TRACESTATE"}, name) {
			add("the variable %s is set by Tollgate: leave it out", name)
		}
		e.env = append(e.env, name+"="+value)
	}
	if s.MaxResult < 0 || s.Grace < 0 {
		add("max_result and grace must not be negative: leave them out for the defaults")
	}
	if err := s.Rules.Validate(); err != nil {
		problems = append(problems, err)
	}
	if s.MaxResult == 0 {
		s.MaxResult = DefaultMaxResult
	}
	if s.Grace == 0 {
		s.Grace = time.Second
	}
	e.spec = s
	return e, errors.Join(problems...)
}
