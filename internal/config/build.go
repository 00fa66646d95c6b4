package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
	"tollgate/tools"
	"tollgate/tools/exec"
	"tollgate/tools/function"
	"tollgate/tools/http"
)

// BuildDeps are what a catalogue needs that no file can hold.
type BuildDeps struct {
	// NATS makes the executor of a tool that is a NATS service. It is a function
	// because this package opens no connection; it is needed only if there is such a tool.
	NATS func(subject string, rules classify.Rules, maxResult int64) (dispatcher.Executor, error)
	// Functions are the Go functions a tool may name.
	Functions map[string]function.Func
}

// Build makes the executors and the catalogue. What is wrong is an *[Error], with
// all problems at once. Nothing is started, connected or executed.
func (c *Config) Build(deps BuildDeps) (*tools.Catalogue, error) {
	k := &checker{Config: c}
	var list []dispatcher.Tool
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t := c.Tools[name]
		executor, err := c.executor(t, deps)
		for _, problem := range flatten(err) {
			k.about("tools."+name, "%s", c.Scrub(problem.Error()))
		}
		if err == nil {
			list = append(list, c.asTool(name, t, executor))
		}
	}
	if len(k.problems) > 0 {
		sortProblems(k.problems)
		return nil, &Error{k.problems}
	}
	catalogue, err := tools.New(list, c.asPolicies(), c.asDependencies(), c.asTenants())
	for _, problem := range flatten(err) {
		k.problems = append(k.problems, Problem{File: c.file, Message: c.Scrub(problem.Error())})
	}
	if err != nil {
		return nil, &Error{k.problems}
	}
	return catalogue, nil
}

// Verify is the verdict of [Config.Build] without a connection, for config check.
func (c *Config) Verify(functions map[string]function.Func) error {
	_, err := c.Build(BuildDeps{Functions: functions, NATS: func(string, classify.Rules, int64) (dispatcher.Executor, error) {
		return unconnected{}, nil
	}})
	return err
}

// unconnected stands for an executor in a catalogue that is thrown away.
type unconnected struct{}

func (unconnected) Execute(context.Context, dispatcher.Invocation) classify.Verdict {
	return classify.Unsent(classify.CodeNotConnected, "the configuration is only being checked")
}

// flatten takes joined errors apart, so that each has a line.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

func (c *Config) executor(t Tool, deps BuildDeps) (dispatcher.Executor, error) {
	rules, most := t.rules(), int64(c.Limits.MaxResult)
	switch {
	case t.HTTP != nil:
		return made(http.New(http.Spec{
			URL: t.HTTP.URL, Method: t.HTTP.Method, Header: reveal(t.HTTP.Headers), Rules: rules, MaxResult: most,
			DenyPrivate: t.HTTP.DenyPrivate, FollowRedirects: t.HTTP.FollowRedirects,
			// A kept-alive connection that dies under a request is an unknown outcome.
			FreshConnection: t.safety() == dedupe.Never,
		}))
	case t.Exec != nil:
		dir := t.Exec.Dir
		if dir != "" {
			dir = c.path(dir)
		}
		return made(exec.New(exec.Spec{
			Command: t.Exec.Command, Args: t.Exec.Args, Env: reveal(t.Exec.Env), Dir: dir, Rules: rules, MaxResult: most,
			// Half of what the dispatcher waits, so that the program is gone before it is given up.
			Grace: max(c.Limits.Grace.D()/2, time.Millisecond),
		}))
	case t.NATS != nil:
		if deps.NATS == nil {
			return nil, errors.New("is a NATS service, and there is no connection to NATS")
		}
		return deps.NATS(t.NATS.Subject, rules, most)
	default:
		f, ok := deps.Functions[t.Function]
		if !ok {
			return nil, fmt.Errorf("the function %s is not registered by this program%s", t.Function, didYouMean(t.Function, slices.Sorted(maps.Keys(deps.Functions))))
		}
		return made(function.New(function.Spec{Func: f, Codes: t.Codes, MaxResult: most}))
	}
}

// made keeps a nil pointer from becoming an executor.
func made[E dispatcher.Executor](e E, err error) (dispatcher.Executor, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}

func reveal(secrets map[string]Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, s := range secrets {
		out[name] = s.Reveal()
	}
	return out
}

func (t *Tool) rules() classify.Rules {
	r := classify.Rules{NotExecutedOn: t.NotExecutedOn, Codes: t.Codes, ErrorAt: t.ErrorAt}
	if len(t.Classify) > 0 {
		r.Overrides = make(map[string]classify.Class, len(t.Classify))
	}
	for status, name := range t.Classify {
		r.Overrides[status], _ = classify.ParseClass(string(name)) // the decoder knows the same names
	}
	return r
}

// safety is a write's, never when it declares none; a read has none.
func (t *Tool) safety() dedupe.Safety {
	if t.Effect == string(dedupe.Write) && t.RetrySafety == "" {
		return dedupe.Never
	}
	return dedupe.Safety(t.RetrySafety)
}

func (c *Config) asTool(name string, t Tool, executor dispatcher.Executor) dispatcher.Tool {
	out := dispatcher.Tool{
		Name: name, Kind: strings.Join(t.kinds(), ""), Effect: dedupe.Effect(t.Effect), Safety: t.safety(),
		KeyRetention: t.KeyRetention.D(), AgentKey: t.DownstreamKey == "key", Dependency: t.Dependency,
		Concurrency: t.Concurrency, JobsShare: t.JobsShare, Policies: map[schemas.Lane][]string{},
		Reconcile: t.Reconcile, Redact: t.Redact, Executor: executor,
	}
	if t.Schema != nil {
		out.Arguments = t.Schema.Compiled
	}
	if t.ResultSchema != nil {
		out.Result = t.ResultSchema.Compiled
	}
	for lane, policies := range map[schemas.Lane][]string{schemas.Calls: t.Policies.Calls, schemas.Jobs: t.Policies.Jobs} {
		if len(policies) > 0 {
			out.Policies[lane] = policies
		}
	}
	return out
}
