package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Overrides are the environment variables that stand over the file, by the path
// they set. The rules of the file hold for them too. TOLLGATE_CONFIG_NATS_URL replaces
// an embedded server as well. It and the credentials have names of their own, because
// TOLLGATE_NATS_URL is the server that the other commands talk to.
var overrides = []struct{ variable, path string }{
	{"TOLLGATE_CONFIG_NATS_URL", "nats.url"},
	{"TOLLGATE_CONFIG_NATS_CREDS", "nats.creds"},
	{"TOLLGATE_LEDGER_PATH", "ledger.path"},
	{"TOLLGATE_LEDGER_RETENTION", "ledger.retention"},
	{"TOLLGATE_SHUTDOWN_GRACE", "limits.shutdown_grace"},
	{"TOLLGATE_LOG_LEVEL", "log.level"},
	{"TOLLGATE_LOG_FORMAT", "log.format"},
}

// Overrides returns the environment variables that stand over the file, each with
// the path it sets.
func Overrides() map[string]string {
	out := make(map[string]string, len(overrides))
	for _, o := range overrides {
		out[o.variable] = o.path
	}
	return out
}

// Load reads a file, with the process's environment. A wrong file is an *[Error].
func Load(path string) (*Config, error) {
	data, err := readBounded(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w (tollgate config init writes an example)", err)
	}
	return Parse(path, data, os.LookupEnv)
}

// Parse reads a configuration. name is the file's, for messages and for what
// relative paths within are relative to. env looks variables up. It is all or
// nothing: on any problem there is no configuration, and an *[Error] with them all.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	root, problems := parse(name, data)
	if root == nil {
		return nil, &Error{problems}
	}
	override(root, env)
	d := &decoder{env: env, problems: problems, source: source{
		file: name, dir: filepath.Dir(name), where: map[string]place{}, preset: map[string]bool{}, raw: map[string]string{},
	}}
	c := new(Config)
	d.value(root, "", reflect.ValueOf(c).Elem(), field{})
	c.source = d.source
	found := check(c)
	for _, p := range found {
		if p.Warning {
			c.warnings = append(c.warnings, p)
		} else {
			d.problems = append(d.problems, p)
		}
	}
	if len(d.problems) > 0 {
		sortProblems(d.problems)
		for i := range d.problems {
			d.problems[i].Message = c.Scrub(d.problems[i].Message)
		}
		return nil, &Error{d.problems}
	}
	return c, nil
}

// override puts the environment's values into the tree, so that they are read and
// judged as if they stood in the file.
func override(root *node, env func(string) (string, bool)) {
	if root.kind != mapping {
		return
	}
	for _, o := range overrides {
		value, ok := env(o.variable)
		if !ok {
			continue
		}
		section, key, _ := strings.Cut(o.path, ".")
		parent := root.get(section)
		if parent == nil {
			parent = &node{kind: mapping, place: place{file: root.file}}
			root.put(section, parent)
		}
		if o.path == "nats.url" {
			parent.remove("embedded")
		}
		// A ${ in the environment's own value is not replaced again.
		parent.put(key, &node{kind: text, value: strings.ReplaceAll(value, "${", "$${"), place: place{file: o.variable}})
	}
}
