package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// decoder fills the structs from a tree and collects every problem on the way.
type decoder struct {
	env      func(string) (string, bool)
	problems []Problem
	source
}

// decodable is a type that reads itself.
type decodable interface {
	decode(d *decoder, n *node, path string)
}

// field is what the tags say of a struct's field.
type field struct {
	index                   int
	name, need, preset, doc string
	one                     []string
	min, max                string
}

func fields(t reflect.Type) []field {
	var fs []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, ok := tag.Lookup("key")
		if !ok {
			continue
		}
		f := field{index: i, name: name, need: tag.Get("need"), preset: tag.Get("default"), doc: tag.Get("doc"), min: tag.Get("min"), max: tag.Get("max")}
		if one := tag.Get("one"); one != "" {
			f.one = strings.Split(one, ",")
		}
		fs = append(fs, f)
	}
	return fs
}

func names(fs []field) []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.name
	}
	return out
}

func (d *decoder) problem(n *node, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{File: n.file, Line: n.line, Column: n.column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// wrong says that a value is of another kind than wanted. It repeats no value.
func (d *decoder) wrong(n *node, path, want string) {
	if n.kind == null {
		d.problem(n, path, "is empty: want %s, or remove the key", want)
		return
	}
	d.problem(n, path, "want %s, have %s", want, n.kind)
}

// value decodes n into v by its type.
func (d *decoder) value(n *node, path string, v reflect.Value, f field) {
	d.where[path] = n.place
	if self, ok := v.Addr().Interface().(decodable); ok {
		self.decode(d, n, path)
		return
	}
	switch target := v.Addr().Interface().(type) {
	case *Duration:
		if t, ok := d.text(n, path, "a duration with a unit, such as 30s"); ok {
			d.duration(n, path, t, target, f)
		}
		return
	case *Size:
		if t, ok := d.text(n, path, "a size with a unit, such as 512KiB"); ok {
			*target = set(d, n, path, t, parseSize)
		}
		return
	case *Sync:
		if t, ok := d.text(n, path, "always, or a duration with a unit"); ok {
			*target = set(d, n, path, t, parseSync)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, v.Elem(), f)
	case reflect.Struct:
		d.structure(n, path, v)
	case reflect.Map:
		d.mapping(n, path, v, f)
	case reflect.Slice:
		d.list(n, path, v, f)
	default:
		d.scalar(n, path, v, f)
	}
}

func (d *decoder) structure(n *node, path string, v reflect.Value) {
	if n.kind != mapping {
		d.wrong(n, path, "a mapping")
		return
	}
	fs := fields(v.Type())
	for _, e := range n.entries {
		if i := indexOf(fs, e.key); i >= 0 {
			d.value(e.value, join(path, e.key), v.Field(fs[i].index), fs[i])
			continue
		}
		at := &node{place: place{file: e.value.file, line: e.line, column: e.column}}
		d.problem(at, join(path, e.key), "unknown field%s", didYouMean(e.key, names(fs)))
	}
	for _, f := range fs {
		if n.get(f.name) == nil {
			d.missing(n, join(path, f.name), v.Field(f.index), f)
		}
	}
}

// missing fills what the file leaves out, or says that it may not.
func (d *decoder) missing(n *node, path string, v reflect.Value, f field) {
	at := place{file: n.file, line: n.line, column: n.column}
	if n.keyLine > 0 {
		at.line, at.column = n.keyLine, n.keyColumn
	}
	switch {
	case f.need != "":
		d.problem(&node{place: at}, path, "missing: %s", f.need)
	case f.preset != "":
		d.value(presetNode(f.preset, at, v.Type()), path, v, f)
		d.preset[path] = true
	case v.Kind() == reflect.Struct && len(fields(v.Type())) > 0:
		d.value(&node{kind: mapping, place: at}, path, v, f)
	}
}

// presetNode is the node of a default, as if it stood in the file.
func presetNode(preset string, at place, t reflect.Type) *node {
	n := &node{kind: text, value: preset, place: at}
	switch t.Kind() {
	case reflect.Slice:
		inner := strings.Trim(preset, "[]")
		return &node{kind: list, place: at, items: []*node{{kind: text, value: inner, place: at}}}
	case reflect.Bool:
		n.kind = boolean
	case reflect.Int, reflect.Float64:
		n.kind = number
	}
	return n
}

func (d *decoder) mapping(n *node, path string, v reflect.Value, f field) {
	if n.kind != mapping {
		d.wrong(n, path, "a mapping")
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.entries)))
	for _, e := range n.entries {
		value := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, join(path, e.key), value, f)
		v.SetMapIndex(reflect.ValueOf(e.key), value)
	}
}

func (d *decoder) list(n *node, path string, v reflect.Value, f field) {
	if n.kind != list {
		d.wrong(n, path, "a list")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		d.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i), f)
	}
}

func (d *decoder) scalar(n *node, path string, v reflect.Value, f field) {
	switch v.Kind() {
	case reflect.String:
		s, ok := d.text(n, path, "text")
		if ok && len(f.one) > 0 && indexOfString(f.one, s) < 0 {
			d.problem(n, path, "%q is not one of %s%s", n.value, strings.Join(f.one, ", "), hint(n.value, f.one))
		}
		v.SetString(s)
	case reflect.Bool:
		if n.kind != boolean || n.value != "true" && n.value != "false" {
			d.wrong(n, path, "true or false")
			return
		}
		v.SetBool(n.value == "true")
	case reflect.Int:
		i, err := strconv.Atoi(n.value)
		if n.kind != number || err != nil || strconv.Itoa(i) != n.value {
			d.wrong(n, path, "a whole number")
			return
		}
		v.SetInt(int64(i))
		d.bounds(n, path, float64(i), f)
	case reflect.Float64:
		x, err := strconv.ParseFloat(n.value, 64)
		if n.kind != number || err != nil || x != x || x > 1e15 || x < -1e15 {
			d.wrong(n, path, "a number")
			return
		}
		v.SetFloat(x)
		d.bounds(n, path, x, f)
	}
}

func (d *decoder) bounds(n *node, path string, x float64, f field) {
	if least, err := strconv.ParseFloat(f.min, 64); err == nil && x < least {
		d.problem(n, path, "%s is too little: want at least %s", n.value, f.min)
	}
	if most, err := strconv.ParseFloat(f.max, 64); err == nil && x > most {
		d.problem(n, path, "%s is too much: want at most %s", n.value, f.max)
	}
}

func indexOf(fs []field, name string) int { return indexOfString(names(fs), name) }

func indexOfString(list []string, s string) int {
	for i, x := range list {
		if x == s {
			return i
		}
	}
	return -1
}

func hint(name string, candidates []string) string {
	if s := suggest(name, candidates); s != "" {
		return " (did you mean " + s + "?)"
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
