package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v4"

	"tollgate/internal/config"
	"tollgate/tools/schema"
)

// The schema for editors and the parser must say the same of a file's shape.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	s, err := schema.Compile(config.Schema())
	if err != nil {
		t.Fatal(err)
	}
	validate := func(file string) error {
		var v any
		if err := yaml.Load([]byte(file), &v); err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(texts(v))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(doc)
	}
	for name, file := range map[string]string{"minimal": minimal, "example": string(config.Example()), "rich": rich} {
		if err := validate(file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, edit := range [][2]string{
		{"attempts: 3", "max_atempts: 3"}, {"attempts: 3", `attempts: "3"`}, {"attempts: 3", "attempts: 0"},
		{"timeout: 2s", "timeout: 30"}, {"timeout: 2s", "timeout: '30'"}, {"timeout: 2s", "timeout: 1d"}, {"timeout: 2s", "timeout: -5s"}, {"timeout: 2s", "timeout: ''"},
		{"    max_retry_after: 5s\n", ""}, {"base: 200ms, ", ""}, {"max_accounts: 32", "max_accounts: 32, more: 1"},
		{"calls: [p]", "call: [p]"}, {"policies: {calls: [p]}", "policies: p"}, {"policies: {calls: [p]}", "effect: maybe"},
		{"policies: {calls: [p]}", "policies: [p]\n    classify: {529: later}"}, {"policies: {calls: [p]}", "policies: [p]\n    jobs_share: 2"},
		{"nats:\n", "log: {level: loud}\nnats:\n"}, {"nats:\n", "dependencies: {d: {breaker: never}}\nnats:\n"}, {"nats:\n", "limits: {grace: 2}\nnats:\n"},
		{"nats:\n", "limits: {max_body: 64}\nnats:\n"}, {"nats:\n", "tenants: {t: {}}\nnats:\n"}, {"nats:\n", "ledger: {sync: never}\nnats:\n"},
	} {
		file := strings.Replace(minimal, edit[0], edit[1], 1)
		if file == minimal {
			t.Fatalf("minimal has no %q", edit[0])
		}
		if _, err := config.Parse("f", []byte(file), noEnv); err == nil {
			t.Errorf("the parser accepts %q", edit[1])
		}
		if validate(file) == nil {
			t.Errorf("the schema accepts %q", edit[1])
		}
	}
}

// texts turns YAML's maps into JSON's.
func texts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = texts(v[k])
		}
		return v
	case map[any]any:
		out := map[string]any{}
		for k, x := range v {
			key, _ := json.Marshal(k)
			out[strings.Trim(string(key), `"`)] = texts(x)
		}
		return out
	case []any:
		for i := range v {
			v[i] = texts(v[i])
		}
	}
	return v
}

// Every key of the schema is used by rich.yaml, so nothing is in the format
// that no test reads.
func TestEveryKeyIsUsedByATest(t *testing.T) {
	var s any
	if err := json.Unmarshal(config.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	all := rich + "url: creds: nkey: token: tls: ca: cert: key: file:" // of an external server, and of secrets
	for _, key := range keys(s, nil) {
		if !strings.Contains(all, key+":") {
			t.Errorf("nothing uses %s", key)
		}
	}
}

func keys(v any, found []string) []string {
	switch v := v.(type) {
	case map[string]any:
		if p, ok := v["properties"].(map[string]any); ok {
			for k := range p {
				found = append(found, k)
			}
		}
		for _, x := range v {
			found = keys(x, found)
		}
	case []any:
		for _, x := range v {
			found = keys(x, found)
		}
	}
	return found
}

func TestExternalServerWithEverything(t *testing.T) {
	file := strings.Replace(minimal, "policies:\n", "  creds: a.creds\n  tls: {ca: ca.pem, cert: c.pem, key: k.pem}\npolicies:\n", 1)
	c := parse(t, file, noEnv)
	if c.NATS.Creds != "a.creds" || c.NATS.TLS.Key != "k.pem" {
		t.Errorf("got %+v", c.NATS)
	}
	for change, want := range map[string]string{
		"creds: a\n  nkey: b":         "more than one of creds, nkey, user and token",
		"user: a":                     "user and password go together",
		"tls: {cert: c}":              "cert and key go together",
		"prefix: 'a b'":               "subject prefix",
		"token: abcd\n  nkey: b":      "more than one",
		"url2: x":                     "did you mean url?",
		"password: '${UNSET}'":        "UNSET is not set",
		"token: {file: x, mode: 1}":   "want text, or {file: path}",
		"tls: {insecure: true}":       "unknown field",
		"embedded: {sync: sometimes}": "or always",
		"embedded: {max_store: 10%}":  "is not a size",
		"embedded: {listen: nowhere}": "there is a url too",
		"creds: 1":                    "put it in quotes",
		"creds: !!binary aGk=":        "tag !!binary is not supported",
		"? [a]\n  : b":                "a key must be a name",
	} {
		_, err := config.Parse("f", []byte(strings.Replace(minimal, "policies:\n", "  "+change+"\npolicies:\n", 1)), noEnv)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", change, err, want)
		}
	}
}
