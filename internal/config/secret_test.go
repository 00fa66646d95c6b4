package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tollgate/internal/config"
)

func withSecrets() string {
	file := strings.Replace(minimal, "{url: https://example.com/a}", `
      url: https://example.com/a?token=t-99-query
      headers:
        Authorization: Bearer s3cr3t-77
        X-Api-Key: "${API_KEY}"
        X-Signed: "Bearer ${API_KEY}"
        X-Mixed: "lit-55-${API_KEY}"`, 1)
	file = strings.Replace(file, "nats://127.0.0.1:4222", `"nats://ann:${NATS_PASSWORD}@nats.example.com"`, 1)
	return file + "  b:\n    exec: {command: cat, env: {TOKEN: env-33}, args: [\"${API_KEY}\"]}\n    policies: [p]\n"
}

var secretEnv = env("API_KEY", "k-88-api", "NATS_PASSWORD", "p-66-nats", "ANN_TOKEN", "a-11-token-of-ann")

var secrets = []string{"s3cr3t-77", "k-88-api", "t-99-query", "lit-55", "p-66-nats", "env-33"}

// B93: secrets are not in what is printed at start, nor in %v of a value, nor in JSON.
func TestSecretsAreNotShown(t *testing.T) {
	c := parse(t, withSecrets(), secretEnv)
	a := c.Tools["a"].HTTP
	if a.Headers["Authorization"].Reveal() != "Bearer s3cr3t-77" || a.Headers["X-Mixed"].Reveal() != "lit-55-k-88-api" {
		t.Fatal("the secrets were not resolved")
	}
	effective := string(config.Effective(c))
	headers, err := json.Marshal(a.Headers)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"effective": effective,
		"%v":        fmt.Sprintf("%v %+v %#v %s", a.Headers, a.Headers, a.Headers, a.Headers),
		"json":      string(headers),
	} {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s shows %s:\n%s", name, s, text)
			}
		}
	}
	for _, want := range []string{`X-Api-Key: "${API_KEY}"`, `X-Signed: "Bearer ${API_KEY}"`, `X-Mixed: "********"`, `?token=********"`, `nats://********@nats.example.com`, `args: ["${API_KEY}"]`} {
		if !strings.Contains(effective, want) {
			t.Errorf("effective lacks %s:\n%s", want, effective)
		}
	}
}

// B93: an error of anything built from the configuration can be scrubbed.
func TestScrub(t *testing.T) {
	c := parse(t, withSecrets(), secretEnv)
	got := c.Scrub("sent Authorization: Bearer s3cr3t-77, X-Api-Key k-88-api, ?token=t-99-query, s3cr3t-77 again, env-33, p-66-nats")
	for _, s := range secrets {
		if strings.Contains(got, s) {
			t.Errorf("%s is left: %s", s, got)
		}
	}
}

// B93: what is wrong with a secret is said without it.
func TestProblemsDoNotShowSecrets(t *testing.T) {
	inHTTP := func(http string) string { return strings.Replace(minimal, "{url: https://example.com/a}", http, 1) }
	for name, file := range map[string]string{
		"url":           inHTTP(`{url: "ftp://u:s3cr3t-77@example.com/?token=t-99-query"}`),
		"list":          inHTTP(`{url: https://e.com, headers: {Authorization: [s3cr3t-77]}}`),
		"line break":    inHTTP(`{url: https://e.com, headers: {Authorization: "s3cr3t-77\nX: y"}}`),
		"wrong type":    strings.Replace(minimal, "timeout: 2s", "timeout: ${API_KEY}", 1),
		"closed set":    minimal + "    effect: ${API_KEY}\n",
		"reference":     strings.Replace(minimal, "calls: [p]", "calls: [\"${API_KEY}\"]", 1),
		"anchor":        strings.Replace(minimal, "url: nats://127.0.0.1:4222", "url: nats://a\n  password: *s3cr3t-77", 1),
		"number":        strings.Replace(minimal, "policies:\n", "  password: 12345678\npolicies:\n", 1),
		"missing file":  inHTTP(`{url: https://e.com, headers: {A: {file: nothere}}}`),
		"missing value": inHTTP(`{url: https://e.com, headers: {A: "s3cr3t-77 ${NOT_SET}"}}`),
		"open brace":    inHTTP(`{url: https://e.com, headers: {A: "s3cr3t-77 ${API_KEY"}}`),
		"nats url":      strings.Replace(minimal, "nats://127.0.0.1:4222", "http://u:s3cr3t-77@x", 1),
	} {
		_, err := config.Parse("tollgate.yaml", []byte(file), secretEnv)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, s := range append(secrets, "12345678") {
			if strings.Contains(err.Error(), s) {
				t.Errorf("%s shows %s: %v", name, s, err)
			}
		}
	}
}

func TestMissingVariablesAreAllNamed(t *testing.T) {
	file := strings.Replace(minimal, "url: https://example.com/a", `url: "https://${HOST}/${PATH_A}"`, 1)
	_, err := config.Parse("tollgate.yaml", []byte(file), env("HOST", "example.com"))
	want := "tollgate.yaml:13:17  error  tools.a.http.url: the environment variable PATH_A is not set"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	c := parse(t, file, env("HOST", "example.com", "PATH_A", "${HOST}"))
	if got := c.Tools["a"].HTTP.URL; got != "https://example.com/${HOST}" {
		t.Errorf("a value is replaced twice, or not at all: %s", got)
	}
	c = parse(t, strings.Replace(minimal, "https://example.com/a", `"https://example.com/$${x}"`, 1), noEnv)
	if got := c.Tools["a"].HTTP.URL; got != "https://example.com/${x}" {
		t.Errorf("$${ gives %s", got)
	}
}

func TestTheEnvironmentStandsOverTheFile(t *testing.T) {
	file := strings.Replace(minimal, "url: nats://127.0.0.1:4222", "embedded: {}", 1)
	c := parse(t, file, env("TOLLGATE_CONFIG_NATS_URL", "nats://other:4222", "TOLLGATE_NATS_URL", "nats://the-clients:4222", "TOLLGATE_LEDGER_PATH", "/x/y.db", "TOLLGATE_LOG_LEVEL", "debug"))
	if c.NATS.URL != "nats://other:4222" || c.NATS.Embedded != nil || c.Ledger.Path != "/x/y.db" || c.Log.Level != "debug" {
		t.Errorf("got %+v %+v %+v", c.NATS, c.Ledger, c.Log)
	}
	for variable := range config.Overrides() {
		if !strings.HasPrefix(variable, "TOLLGATE_") {
			t.Errorf("%s is not documented as TOLLGATE_*", variable)
		}
	}
	_, err := config.Parse("f", []byte(minimal), env("TOLLGATE_LOG_LEVEL", "loud"))
	if err == nil || !strings.HasPrefix(err.Error(), "TOLLGATE_LOG_LEVEL  error  log.level: ") {
		t.Errorf("got %v", err)
	}
}

// What is printed at start is a file that means the same.
func TestEffectiveReadsBack(t *testing.T) {
	for name, file := range map[string]string{"minimal": minimal, "example": string(config.Example()), "rich": rich} {
		printed := config.Effective(parse(t, file, secretEnv))
		again, err := config.Parse("effective.yaml", printed, secretEnv)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, printed)
			continue
		}
		if d := cmp.Diff(string(printed), string(config.Effective(again))); d != "" {
			t.Errorf("%s (-first +second):\n%s", name, d)
		}
	}
}

// rich uses every key.
var rich = func() string {
	data, err := os.ReadFile("testdata/rich.yaml")
	if err != nil {
		panic(err)
	}
	return string(data)
}()
