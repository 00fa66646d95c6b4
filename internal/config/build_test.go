package config_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/internal/config"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// service stands for the executor of a NATS tool, and keeps what it was made of.
type service struct {
	subject string
	rules   classify.Rules
	most    int64
}

func (service) Execute(context.Context, dispatcher.Invocation) classify.Verdict {
	return classify.Success(nil, nil)
}

func deps() config.BuildDeps {
	return config.BuildDeps{
		NATS: func(subject string, rules classify.Rules, most int64) (dispatcher.Executor, error) {
			return service{subject, rules, most}, nil
		},
		Functions: map[string]function.Func{"now": func(context.Context, dispatcher.Invocation) (any, error) { return "noon", nil }},
	}
}

func TestBuildGivesTheDispatcherWhatTheFileSays(t *testing.T) {
	catalogue, err := parse(t, strings.Replace(rich, "command: ./find", "command: cat", 1), secretEnv).Build(deps())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"crm.find", "crm.upsert", "local.now", "mail.send", "report.render"}, catalogue.Names()); d != "" {
		t.Error(d)
	}
	p, _ := catalogue.Policy("p")
	if d := cmp.Diff(dispatcher.Policy{
		Name: "p", Attempts: 2, Timeout: time.Second, BackoffBase: 100 * time.Millisecond, BackoffCap: time.Second,
		ThrottleBase: 500 * time.Millisecond, MaxDeadline: 10 * time.Second,
		Run: budget.Maxima{Attempts: 10, Elapsed: time.Minute, Accounts: 1},
	}, p); d != "" {
		t.Error(d)
	}
	db, _ := catalogue.Dependency("db")
	if d := cmp.Diff(dispatcher.Dependency{
		Name: "db", Quota: budget.QuotaLimits{Ratio: 0.2, Burst: 5, RefillPerSec: 1}, Rate: 2.5, Burst: 2,
		Breaker: dispatcher.BreakerLimits{Consecutive: 3, Ratio: 0.4, Least: 10, Cooldown: 5 * time.Second},
	}, db); d != "" {
		t.Error(d)
	}
	api, _ := catalogue.Dependency("api")
	if api.Breaker != (dispatcher.BreakerLimits{}) || api.Quota.Burst != 20 {
		t.Errorf("api: %+v", api)
	}
	upsert, _ := catalogue.Tool("crm.upsert")
	if upsert.Kind != "http" || upsert.Safety != dedupe.IdempotencyKey || upsert.KeyRetention != 48*time.Hour || !upsert.AgentKey ||
		upsert.Reconcile != "crm.find" || upsert.Concurrency != 2 || upsert.JobsShare != 0.25 {
		t.Errorf("crm.upsert: %+v", upsert)
	}
	if d := cmp.Diff(map[schemas.Lane][]string{schemas.Calls: {"p", "q"}, schemas.Jobs: {"q"}}, upsert.Policies); d != "" {
		t.Error(d)
	}
	if err := upsert.Arguments.Validate([]byte(`{"n": "x"}`)); err == nil {
		t.Error("the schema of the arguments does not hold")
	}
	find, _ := catalogue.Tool("crm.find")
	if find.Arguments != nil || find.Result != nil || find.Safety != "" {
		t.Errorf("crm.find: %+v", find)
	}
	mail, _ := catalogue.Tool("mail.send")
	if got := mail.Executor.(service); got.subject != "mail.send" || got.most != 1<<20 || mail.Safety != dedupe.Never {
		t.Errorf("mail.send: %+v", mail)
	}
	if !catalogue.Allowed("acme", "crm.find") || catalogue.Allowed("acme", "local.now") || catalogue.Allowed("default", "crm.find") {
		t.Error("the tenants are not those of the file")
	}
	now, _ := catalogue.Tool("local.now")
	v := now.Executor.Execute(t.Context(), dispatcher.Invocation{Arguments: []byte(`{}`)})
	if !v.OK() {
		t.Errorf("local.now: %+v", v)
	}
}

// A tool of the file makes a real request, with its resolved secret and its rules.
func TestBuiltToolsAskWhatTheFileSays(t *testing.T) {
	var seen http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		w.WriteHeader(529)
	}))
	defer server.Close()
	file := strings.Replace(minimal, "{url: https://example.com/a}", "{url: "+server.URL+", headers: {X-Api-Key: \"${API_KEY}\"}}", 1) + "    classify: {529: transient}\n"
	catalogue, err := parse(t, file, secretEnv).Build(config.BuildDeps{})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := catalogue.Tool("a")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	v := a.Executor.Execute(ctx, dispatcher.Invocation{Tool: "a", Arguments: []byte(`{}`), Deadline: time.Now().Add(5 * time.Second)})
	if seen.Get("X-Api-Key") != "k-88-api" || v.Class != classify.Transient {
		t.Errorf("sent %v, got %+v", seen, v)
	}
}

func TestBuildSaysEverythingAtOnceAndShowsNoSecret(t *testing.T) {
	file := strings.Replace(minimal, "{url: https://example.com/a}", `{url: "https://u:s3cr3t-77@example.com/?token=t-99-query", headers: {Idempotency-Key: k-88-api}}`, 1) +
		"  b:\n    exec: {command: no-such-program-here}\n    policies: [p]\n" +
		"  c:\n    nats: {subject: c}\n    policies: [p]\n" +
		"  d:\n    function: noww\n    policies: [p]\n"
	c := parse(t, file, noEnv)
	_, err := c.Build(config.BuildDeps{Functions: deps().Functions})
	var bad *config.Error
	if !errors.As(err, &bad) {
		t.Fatalf("got %v", err)
	}
	var places []string
	for _, p := range bad.Problems {
		places = append(places, p.Path)
	}
	if d := cmp.Diff([]string{"tools.a", "tools.a", "tools.b", "tools.c", "tools.d"}, places); d != "" {
		t.Errorf("%s\n%v", d, err)
	}
	for _, want := range []string{"tollgate.yaml:12:3  error  tools.a: ", "no connection to NATS", "did you mean now?"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q: %v", want, err)
		}
	}
	for _, s := range secrets {
		if strings.Contains(err.Error(), s) {
			t.Errorf("shows %s: %v", s, err)
		}
	}
}

// config check = the verdict of start, without a connection.
func TestVerify(t *testing.T) {
	if err := parse(t, strings.Replace(minimal, "http: {url: https://example.com/a}", "nats: {subject: a}", 1), noEnv).Verify(nil); err != nil {
		t.Error(err)
	}
	if err := parse(t, strings.Replace(minimal, "http: {url: https://example.com/a}", "function: x", 1), noEnv).Verify(nil); err == nil {
		t.Error("a function nobody registered passed")
	}
}

func TestTheExampleBuilds(t *testing.T) {
	catalogue, err := parse(t, string(config.Example()), noEnv).Build(deps())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(catalogue.Names()); n != 5 {
		t.Errorf("%d tools", n)
	}
}
