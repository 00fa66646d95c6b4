package tools_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/schemas"
	"tollgate/tools"
)

type echo struct{}

func (echo) Execute(_ context.Context, in dispatcher.Invocation) classify.Verdict {
	return classify.Success(nil, in.Arguments)
}

func interactive() dispatcher.Policy {
	return dispatcher.Policy{
		Name: "interactive", Attempts: 3, Timeout: 2 * time.Second, BackoffBase: 200 * time.Millisecond,
		BackoffCap: 2 * time.Second, ThrottleBase: time.Second, MaxRetryAfter: 5 * time.Second, MaxDeadline: 30 * time.Second,
		MaxRepairs: 3, Run: budget.Maxima{Attempts: 40, SideEffects: 10, Elapsed: 10 * time.Minute, Accounts: 32},
	}
}

func tool(name string) dispatcher.Tool {
	return dispatcher.Tool{
		Name: name, Effect: dedupe.Write, Concurrency: 4, JobsShare: 0.5, Executor: echo{},
		Policies: map[schemas.Lane][]string{schemas.Calls: {"interactive"}},
	}
}

func ExampleNew() {
	c, err := tools.New([]dispatcher.Tool{tool("crm.upsert"), tool("crm.find")}, []dispatcher.Policy{interactive()}, nil,
		map[string][]string{"sales": {"crm.*"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(c.Names(), c.Allowed("sales", "crm.find"), c.Allowed("sales", "mail.send"), c.Allowed("default", "crm.find"))
	// Output: [crm.find crm.upsert] true false false
}

func TestAToolWithoutADependencyGetsItsOwn(t *testing.T) {
	shared := tool("b")
	shared.Dependency = "db"
	c, err := tools.New([]dispatcher.Tool{tool("a"), shared}, []dispatcher.Policy{interactive()},
		[]dispatcher.Dependency{{Name: "db", Quota: budget.QuotaLimits{Burst: 5, Ratio: 0.2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := c.Tool("a")
	own, ok := c.Dependency("a")
	if a.Dependency != "a" || !ok {
		t.Fatalf("tool a stands on %q, known %v", a.Dependency, ok)
	}
	if d := cmp.Diff(tools.DefaultDependency("a"), own); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"a", "db"}, c.Dependencies()); d != "" {
		t.Error(d)
	}
}

func TestAllowed(t *testing.T) {
	c, err := tools.New(nil, nil, nil, map[string][]string{"all": {"*"}, "some": {"crm.*", "mail.send"}, "none": nil})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		tenant, tool string
		want         bool
	}{
		{"all", "anything.at.all", true},
		{"some", "crm.find", true}, {"some", "crm", false}, {"some", "crmx.find", false},
		{"some", "mail.send", true}, {"some", "mail.sender", false},
		{"none", "crm.find", false}, {"unknown", "crm.find", false}, {"default", "crm.find", false},
	} {
		if got := c.Allowed(test.tenant, test.tool); got != test.want {
			t.Errorf("%s may call %s: %v, want %v", test.tenant, test.tool, got, test.want)
		}
	}
	open, err := tools.New(nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !open.Allowed("default", "x") || open.Allowed("other", "x") {
		t.Error("without tenants, only default may call everything")
	}
}

func TestNamedDependencyIsNotTakenByAccident(t *testing.T) {
	_, err := tools.New([]dispatcher.Tool{tool("a")}, []dispatcher.Policy{interactive()},
		[]dispatcher.Dependency{tools.DefaultDependency("a")}, nil)
	if err == nil || !strings.Contains(err.Error(), "does not name it") {
		t.Errorf("got %v", err)
	}
}

func TestAllProblemsAreSaidAtOnce(t *testing.T) {
	bad := func(change func(*dispatcher.Tool)) dispatcher.Tool {
		x := tool("bad")
		change(&x)
		return x
	}
	for want, x := range map[string]dispatcher.Tool{
		"tool \"a b\": want up to 8 segments": bad(func(x *dispatcher.Tool) { x.Name = "a b" }),
		"has no executor":                     bad(func(x *dispatcher.Tool) { x.Executor = nil }),
		"concurrency 0":                       bad(func(x *dispatcher.Tool) { x.Concurrency = 0 }),
		"jobs share 0":                        bad(func(x *dispatcher.Tool) { x.JobsShare = 0 }),
		"jobs share 1.5":                      bad(func(x *dispatcher.Tool) { x.JobsShare = 1.5 }),
		"effect \"\"":                         bad(func(x *dispatcher.Tool) { x.Effect = "" }),
		"a read needs no retry safety":        bad(func(x *dispatcher.Tool) { x.Effect, x.Safety = dedupe.Read, dedupe.Idempotent }),
		"needs a key retention":               bad(func(x *dispatcher.Tool) { x.Safety = dedupe.IdempotencyKey }),
		"a key retention says something only": bad(func(x *dispatcher.Tool) { x.KeyRetention = time.Hour }),
		"retry safety \"maybe\"":              bad(func(x *dispatcher.Tool) { x.Safety = "maybe" }),
		"policy \"slow\" does not exist":      bad(func(x *dispatcher.Tool) { x.Policies = map[schemas.Lane][]string{schemas.Jobs: {"slow"}} }),
		"has no policy":                       bad(func(x *dispatcher.Tool) { x.Policies = nil }),
		"lane \"mail\" does not exist":        bad(func(x *dispatcher.Tool) { x.Policies = map[schemas.Lane][]string{"mail": {"interactive"}} }),
		"dependency \"db\" does not exist":    bad(func(x *dispatcher.Tool) { x.Dependency = "db" }),
		"reconcile tool \"x\" does not exist": bad(func(x *dispatcher.Tool) { x.Reconcile = "x" }),
		"reconcile tool other is not a read":  bad(func(x *dispatcher.Tool) { x.Reconcile = "other" }),
		"there are two of that name":          bad(func(x *dispatcher.Tool) { x.Name = "other" }),
	} {
		other := tool("other")
		other.Concurrency = -1 // always one more problem, which must not hide the other
		c, err := tools.New([]dispatcher.Tool{other, x}, []dispatcher.Policy{interactive()}, nil, nil)
		if c != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if want != "there are two of that name" && !strings.Contains(err.Error(), "tool other: concurrency -1") {
			t.Errorf("%q hid the other problem: %v", want, err)
		}
	}
}

// There are no built-in limits: zeroing any field of a policy is refused.
func TestAPolicyThatLeavesALimitOutIsRefused(t *testing.T) {
	for name, change := range map[string]func(*dispatcher.Policy){
		"attempts":       func(p *dispatcher.Policy) { p.Attempts = 0 },
		"timeout":        func(p *dispatcher.Policy) { p.Timeout = 0 },
		"backoff base":   func(p *dispatcher.Policy) { p.BackoffBase = 0 },
		"backoff cap":    func(p *dispatcher.Policy) { p.BackoffCap = 0 },
		"throttle base":  func(p *dispatcher.Policy) { p.ThrottleBase = 0 },
		"stated wait":    func(p *dispatcher.Policy) { p.MaxRetryAfter = -1 },
		"deadline":       func(p *dispatcher.Policy) { p.MaxDeadline = 0 },
		"repairs":        func(p *dispatcher.Policy) { p.MaxRepairs = -1 },
		"attempts of":    func(p *dispatcher.Policy) { p.Run.Attempts = 0 },
		"side effects":   func(p *dispatcher.Policy) { p.Run.SideEffects = -1 },
		"elapsed time":   func(p *dispatcher.Policy) { p.Run.Elapsed = 0 },
		"accounts of":    func(p *dispatcher.Policy) { p.Run.Accounts = 0 },
		"without a name": func(p *dispatcher.Policy) { p.Name = "" },
	} {
		p := interactive()
		change(&p)
		if _, err := tools.New(nil, []dispatcher.Policy{p}, nil, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDependenciesAndTenantsAreChecked(t *testing.T) {
	for want, d := range map[string]dispatcher.Dependency{
		"retry quota": {Name: "d"},
		"rate":        {Name: "d", Quota: tools.DefaultQuota(), Rate: -1},
		"breaker":     {Name: "d", Quota: tools.DefaultQuota(), Breaker: dispatcher.BreakerLimits{Consecutive: 5}},
	} {
		if _, err := tools.New(nil, nil, []dispatcher.Dependency{d}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	_, err := tools.New(nil, nil, nil, map[string][]string{"A": {"*"}, "b": {"x.*.y", ""}})
	for _, want := range []string{`tenant "A"`, `"x.*.y"`, `pattern ""`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
