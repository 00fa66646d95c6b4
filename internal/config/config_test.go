package config_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/internal/config"
	"tollgate/schemas"
)

// minimal is a file that is right, to be changed by the tests.
const minimal = `nats:
  url: nats://127.0.0.1:4222
policies:
  p:
    attempts: 3
    timeout: 2s
    backoff: {base: 200ms, cap: 2s, throttle_base: 1s}
    max_retry_after: 5s
    max_deadline: 30s
    run: {attempts: 40, side_effects: 10, elapsed: 10m, max_repairs: 3, max_accounts: 32}
tools:
  a:
    http: {url: https://example.com/a}
    policies: {calls: [p]}
`

func noEnv(string) (string, bool) { return "", false }

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func parse(t *testing.T, file string, env func(string) (string, bool)) *config.Config {
	t.Helper()
	c, err := config.Parse("tollgate.yaml", []byte(file), env)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ExampleParse() {
	file := strings.Replace(minimal, "attempts: 3", "max_atempts: 3", 1)
	file = strings.Replace(file, "timeout: 2s", "timeout: 2", 1)
	_, err := config.Parse("tollgate.yaml", []byte(file), os.LookupEnv)
	fmt.Println(err)
	// Output:
	// tollgate.yaml:4:3  error  policies.p.attempts: missing: a policy names every limit, none is built in
	// tollgate.yaml:5:5  error  policies.p.max_atempts: unknown field (did you mean attempts?)
	// tollgate.yaml:6:14  error  policies.p.timeout: 2 has no unit: write 2s, 2ms or 2m
}

func TestDefaults(t *testing.T) {
	c := parse(t, minimal, noEnv)
	if c.Ledger.Retention.D() != 7*24*time.Hour || c.Ledger.Sync != (config.Sync{}) || c.Ledger.Path == "" {
		t.Errorf("ledger: %+v", c.Ledger)
	}
	if c.NATS.Prefix != "tollgate" || c.NATS.Embedded != nil {
		t.Errorf("nats: %+v", c.NATS)
	}
	if c.Limits.MaxBody != config.Size(1<<20-schemas.BodyReserve) || c.Limits.Grace.D() != 2*time.Second {
		t.Errorf("limits: %+v", c.Limits)
	}
	a := c.Tools["a"]
	if a.Effect != "write" || a.RetrySafety != "" || a.Concurrency != 4 || a.JobsShare != 0.5 || a.HTTP.Method != "POST" || a.DownstreamKey != "call" {
		t.Errorf("tool: %+v", a)
	}
	if len(a.Policies.Jobs) != 0 {
		t.Errorf("a tool that names calls only takes jobs too: %v", a.Policies)
	}
	if d := cmp.Diff([]string{"_INBOX."}, c.Control.ReplyPrefixes); d != "" {
		t.Error(d)
	}
}

func TestAPlainListOfPoliciesIsForBothLanes(t *testing.T) {
	c := parse(t, strings.Replace(minimal, "policies: {calls: [p]}", "policies: [p]", 1), noEnv)
	if p := c.Tools["a"].Policies; len(p.Calls) != 1 || len(p.Jobs) != 1 {
		t.Errorf("got %+v", p)
	}
}

// Each bad file with all that is said about it. @old@new edits minimal.
func TestBadFilesAreAnsweredWithPlaceAndAdvice(t *testing.T) {
	edit := func(old, new string) string {
		if !strings.Contains(minimal, old) {
			t.Fatalf("minimal has no %q", old)
		}
		return strings.Replace(minimal, old, new, 1)
	}
	for _, test := range []struct {
		name, file, want string
	}{
		{"unknown field", edit("attempts: 3", "max_atempts: 3"), `
tollgate.yaml:4:3  error  policies.p.attempts: missing: a policy names every limit, none is built in
tollgate.yaml:5:5  error  policies.p.max_atempts: unknown field (did you mean attempts?)`},
		{"unknown top level", "ntas: {}\n" + minimal, `
tollgate.yaml:1:1  error  ntas: unknown field (did you mean nats?)`},
		{"duplicate key", edit("timeout: 2s", "timeout: 2s\n    timeout: 3s"), `
tollgate.yaml:7:5  error  the key timeout is there twice`},
		{"bare number", edit("timeout: 2s", "timeout: 30"), `
tollgate.yaml:6:14  error  policies.p.timeout: 30 has no unit: write 30s, 30ms or 30m`},
		{"wrong types, all at once", edit("attempts: 3", `attempts: "3"`) + "    concurrency: many\n    codes: [409]\n    effect: 1\n    redact: /a\nlog: [info]\n", `
tollgate.yaml:5:15  error  policies.p.attempts: want a whole number, have text
tollgate.yaml:15:18  error  tools.a.concurrency: want a whole number, have text
tollgate.yaml:16:13  error  tools.a.codes[0]: want text (put it in quotes), have a number
tollgate.yaml:17:13  error  tools.a.effect: want text (put it in quotes), have a number
tollgate.yaml:18:13  error  tools.a.redact: want a list, have text
tollgate.yaml:19:6  error  log: want a mapping, have a list`},
		{"empty value", edit("timeout: 2s", "timeout:"), `
tollgate.yaml:6:13  error  policies.p.timeout: is empty: want a duration with a unit, such as 30s, or remove the key`},
		{"closed sets", minimal + "    retry_safety: idempotentt\nlog: {level: loud}\n", `
tollgate.yaml:15:19  error  tools.a.retry_safety: "idempotentt" is not one of idempotent, idempotency_key, never (did you mean idempotent?)
tollgate.yaml:16:14  error  log.level: "loud" is not one of trace, debug, info, warn, error`},
		{"numbers out of bounds", edit("attempts: 3", "attempts: 0") + "    jobs_share: 1.5\n    concurrency: 0x10\n", `
tollgate.yaml:5:15  error  policies.p.attempts: 0 is too little: want at least 1
tollgate.yaml:15:17  error  tools.a.jobs_share: 1.5 is too much: want at most 1
tollgate.yaml:16:18  error  tools.a.concurrency: want a whole number, have a number`},
		{"a whole part of a policy is missing", edit("    backoff: {base: 200ms, cap: 2s, throttle_base: 1s}\n", ""), `
tollgate.yaml:4:3  error  policies.p.backoff: missing: a policy names every limit, none is built in`},
		{"size", "limits: {max_body: 64, max_result: 1MB}\n" + minimal, `
tollgate.yaml:1:20  error  limits.max_body: "64" is not a size: want a whole number with B, KiB, MiB, GiB or TiB, such as 512KiB
tollgate.yaml:1:36  error  limits.max_result: "1MB" is not a size: want a whole number with B, KiB, MiB, GiB or TiB, such as 512KiB`},
		{"no server", edit("nats:\n  url: nats://127.0.0.1:4222\n", ""), `
tollgate.yaml:1:1  error  nats: says not where the server is: give it a url, or write embedded: {}`},
		{"two servers", edit("policies:\n", "  embedded: {}\npolicies:\n"), `
tollgate.yaml:3:3  error  nats.embedded: there is a url too: keep one of them`},
		{"open embedded server", edit("url: nats://127.0.0.1:4222", "embedded: {listen: \"0.0.0.0:4222\"}"), `
tollgate.yaml:2:22  error  nats.embedded.listen: 0.0.0.0 is reachable from outside, and nobody has to prove who they are: set nats.user and nats.password, or listen on 127.0.0.1`},
		{"open listener", "http: {listen: \"0.0.0.0:9464\"}\n" + minimal, `
tollgate.yaml:1:16  error  http.listen: 0.0.0.0 is reachable from other machines, and nobody has to prove who they are: listen on 127.0.0.1, or set expose: true if a firewall or proxy decides who gets there`},
		{"listener on every address", "http: {listen: \":9464\", expose: true}\n" + minimal, `
tollgate.yaml:1:16  error  http.listen: names no host, which would be every address of this machine: write 127.0.0.1 in front of the port`},
		{"B56 retention", "ledger: {retention: 20s}\n" + minimal, `
tollgate.yaml:1:21  error  ledger.retention: 20s is shorter than the max_deadline 30s of policy p: an outcome would be forgotten while its call may still come again`},
		{"read with retry safety", minimal + "    effect: read\n    retry_safety: idempotent\n", `
tollgate.yaml:16:19  error  tools.a.retry_safety: a read needs none, it may always be repeated; if it changes anything, say effect: write`},
		{"keyed without retention", minimal + "    retry_safety: idempotency_key\n", `
tollgate.yaml:15:19  error  tools.a.retry_safety: idempotency_key needs key_retention: how long does the tool remember a key?`},
		{"retention without key", minimal + "    key_retention: 24h\n", `
tollgate.yaml:15:20  error  tools.a.key_retention: says something only with retry_safety: idempotency_key`},
		{"references", edit("calls: [p]", "calls: [pp]") + "    dependency: db\n    reconcile: b\n", `
tollgate.yaml:14:24  error  tools.a.policies.calls[0]: the policy pp does not exist (did you mean p?)
tollgate.yaml:15:17  error  tools.a.dependency: the dependency db does not exist
tollgate.yaml:16:16  error  tools.a.reconcile: the tool b does not exist (there are: a)`},
		{"reconcile is a write", minimal + "    reconcile: b\n  b:\n    nats: {subject: b}\n    policies: [p]\n", `
tollgate.yaml:15:16  error  tools.a.reconcile: b is not a read: asking what happened must change nothing`},
		{"no kind, two kinds", edit("http: {url: https://example.com/a}", "effect: read") + "  b:\n    nats: {subject: b}\n    function: b\n    policies: [p]\n", `
tollgate.yaml:12:3  error  tools.a: says not how to run it: give it one of http, exec, nats and function
tollgate.yaml:15:3  error  tools.b: says more than one way to run it: keep one of nats, function`},
		{"timeout does not fit", edit("timeout: 2s", "timeout: 10m"), `
tollgate.yaml:6:14  error  policies.p.timeout: 10m does not fit into the max_deadline 30s: no attempt could ever start
tollgate.yaml:6:14  error  policies.p.timeout: 10m does not fit into run.elapsed 10m: no attempt could ever start`},
		{"backoff", edit("base: 200ms", "base: 3s"), `
tollgate.yaml:7:21  error  policies.p.backoff.base: 3s is more than the cap 2s`},
		{"codes", minimal + "    classify: {529: transient, 530: later, x: permanent}\n    not_executed_on: [0]\n    error_at: error\n", `
tollgate.yaml:15:37  error  tools.a.classify.530: "later" is not one of transient, permanent, unclassified
tollgate.yaml:15:44  error  tools.a.classify.x: is not a status or an exit code, such as 529
tollgate.yaml:16:23  error  tools.a.not_executed_on[0]: 0 is not a status or an exit code
tollgate.yaml:17:15  error  tools.a.error_at: "error" is not a JSON pointer: want one such as /error`},
		{"names", edit("  a:\n", "  \"a b\":\n") + "tenants: {Acme: {tools: [\"x*y\"]}, b: {}}\n", `
tollgate.yaml:12:3  error  tools.a b: is not a tool's name: want up to 8 segments of [A-Za-z0-9_-]{1,64} joined by dots
tollgate.yaml:15:11  error  tenants.Acme: is not a tenant's name: want 1 to 32 of [a-z0-9_-]
tollgate.yaml:15:26  error  tenants.Acme.tools[0]: "x*y": want a tool's name, or a prefix and * at the end
tollgate.yaml:15:35  error  tenants.b.tools: missing: name the tools this tenant may call, ["*"] for all`},
		{"schema", minimal + "    schema: {type: strin}\n    result_schema: nothere.json\n", `
tollgate.yaml:15:13  error  tools.a.schema: compiling the schema: /type: got string, want array; /type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'
tollgate.yaml:16:20  error  tools.a.result_schema: reading the schema: stat nothere.json: no such file or directory`},
		{"subjects", minimal + "  b:\n    nats: {subject: b.*}\n    policies: [p]\n  c:\n    nats: {subject: tollgate.calls.x}\n    policies: [p]\n", `
tollgate.yaml:16:21  error  tools.b.nats.subject: "b.*" cannot be published to: want names joined by dots, without wildcards
tollgate.yaml:19:21  error  tools.c.nats.subject: tollgate.calls.x is one of Tollgate's own subjects: the tool must listen on another`},
		{"function", minimal + "  b:\n    function: b\n    error_at: /e\n    policies: [p]\n", `
tollgate.yaml:15:3  error  tools.b: classify, not_executed_on and error_at say nothing of a function: it returns its own errors`},
		{"breaker", "dependencies: {db: {breaker: on}}\n" + minimal, `
tollgate.yaml:1:30  error  dependencies.db.breaker: want off, or a mapping of consecutive, ratio, least and cooldown, have text`},
		{"not YAML", "nats: [\n", "\ntollgate.yaml:2:1  error  not YAML: did not find expected node content"},
		{"merge key", edit("timeout: 2s", "<<: {}\n    timeout: 2s"), `
tollgate.yaml:6:5  error  merge keys are not supported: write the values out, or use an alias for a whole value`},
		{"empty file", "# nothing\n", "\ntollgate.yaml  error  the file is empty: tollgate config init writes an example"},
		{"two documents", minimal + "---\na: 1\n", "\ntollgate.yaml  error  more than one YAML document: remove the lines of three dashes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := config.Parse("tollgate.yaml", []byte(test.file), noEnv)
			var bad *config.Error
			if c != nil || !errors.As(err, &bad) {
				t.Fatalf("got %v, %v", c, err)
			}
			if d := cmp.Diff(strings.TrimPrefix(test.want, "\n"), err.Error()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestAliasesStandForWholeValues(t *testing.T) {
	file := strings.Replace(minimal, "  p:\n", "  p: &p\n", 1)
	file = strings.Replace(file, "tools:\n", "  q: *p\ntools:\n", 1)
	c := parse(t, file, noEnv)
	if d := cmp.Diff(c.Policies["p"], c.Policies["q"]); d != "" {
		t.Error(d)
	}
	bomb := "a: &a [1,1,1,1,1,1,1,1,1]\n"
	for i := range 8 {
		x := string(rune('a' + i))
		bomb += string(rune('b'+i)) + ": &" + string(rune('b'+i)) + " [" + strings.Repeat("*"+x+",", 8) + "*" + x + "]\n"
	}
	for _, file := range []string{bomb, "a: &a [*a]\n"} {
		_, err := config.Parse("f", []byte(file), noEnv)
		if err == nil || !strings.Contains(err.Error(), "does an alias contain itself?") {
			t.Errorf("got %v", err)
		}
	}
}

func TestLoadReadsSchemasAndSecretsBesideTheFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.json", `{"type": "object", "required": ["x"]}`)
	write("token", "s3cr3t-77\n")
	write("tollgate.yaml", strings.Replace(minimal, "{url: https://example.com/a}", "{url: https://example.com/a, headers: {X-Api-Key: {file: token}}}", 1)+"    schema: a.json\n")
	c, err := config.Load(dir + "/tollgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a := c.Tools["a"]
	if got := a.HTTP.Headers["X-Api-Key"].Reveal(); got != "s3cr3t-77" {
		t.Errorf("secret %q", got)
	}
	if err := a.Schema.Compiled.Validate([]byte(`{}`)); err == nil {
		t.Error("the schema of the file does not hold")
	}
	if _, err := config.Load(dir + "/nothere.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
