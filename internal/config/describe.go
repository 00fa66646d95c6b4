package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Where a value of the configuration comes from.
const (
	FromDefault     = "default"
	FromFile        = "file"
	FromEnvironment = "environment"
	FromSecretFile  = "secret-file"
)

// Value is one value as it holds, and where it comes from.
type Value struct {
	Path   string // such as ledger.retention
	Text   string // as the file would have it; secrets are masked
	Source string
	Where  string // file and line, or the environment's variable
}

// mostText bounds what is shown of one value: a schema may be long.
const mostText = 2000

// Describe returns every value that holds, in the order of the file format. A viewer
// may see it: what users sign in with is masked, whatever form it has.
func Describe(c *Config) []Value {
	d := describer{c: c, printer: printer{raw: c.raw}}
	d.structure(reflect.ValueOf(c).Elem(), "")
	return d.values
}

type describer struct {
	c       *Config
	printer printer
	values  []Value
}

func (d *describer) structure(v reflect.Value, path string) {
	for _, f := range fields(v.Type()) {
		if value := v.Field(f.index); !value.IsZero() || f.preset != "" || f.need != "" {
			d.member(value, join(path, f.name))
		}
	}
}

func (d *describer) member(v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case isInline(v):
		d.add(v, path)
	case v.Kind() == reflect.Struct:
		d.structure(v, path)
	default:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			d.member(v.MapIndex(k), join(path, k.String()))
		}
	}
}

func (d *describer) add(v reflect.Value, path string) {
	value := Value{Path: path, Text: d.printer.inline(v, path), Source: FromFile}
	at := d.c.where[path]
	secret, isSecret := v.Interface().(Secret)
	raw, replaced := d.c.raw[path]
	switch {
	case d.c.preset[path]:
		value.Source = FromDefault
	case at.file != "" && at.file != d.c.file:
		value.Source, value.Where = FromEnvironment, at.file
	case isSecret && secret.file != "":
		value.Source, value.Where = FromSecretFile, secret.file
	case replaced && strings.Join(variables(raw), "") != "":
		value.Source, value.Where = FromEnvironment, strings.Join(variables(raw), ", ")
	default:
		value.Where = fmt.Sprintf("%s:%d", d.c.file, at.line)
	}
	if _, is := v.Interface().(Digest); is {
		value.Text = mask
	}
	if text := []rune(value.Text); len(text) > mostText {
		value.Text = string(text[:mostText]) + "…"
	}
	d.values = append(d.values, value)
}

// variables names what a text takes from the environment.
func variables(raw string) []string {
	var names []string
	for _, found := range reference.FindAllStringSubmatch(raw, -1) {
		if found[1] != "" {
			names = append(names, found[1])
		}
	}
	return names
}
