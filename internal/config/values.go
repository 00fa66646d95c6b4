package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"tollgate/dispatcher/classify"
	"tollgate/tools/schema"
)

// Breaker is off, or says when a dependency's circuit breaker opens.
type Breaker struct {
	Off   bool
	Rules BreakerRules
}

// BreakerRules say when a breaker opens, and for how long.
type BreakerRules struct {
	Consecutive int      `key:"consecutive" default:"5" min:"0" doc:"Failures in a row that open it; 0: these do not."`
	Ratio       float64  `key:"ratio" default:"0.5" min:"0" max:"1" doc:"Failed share that opens it; 0: it does not."`
	Least       int      `key:"least" default:"20" min:"1" doc:"Attempts before the ratio counts."`
	Cooldown    Duration `key:"cooldown" default:"30s" doc:"How long it stays open."`
}

func (b *Breaker) decode(d *decoder, n *node, path string) {
	if n.kind == text && n.value == "off" || n.kind == boolean && n.value == "off" {
		b.Off = true
		return
	}
	if n.kind != mapping {
		d.wrong(n, path, "off, or a mapping of consecutive, ratio, least and cooldown")
		return
	}
	d.value(n, path, reflect.ValueOf(&b.Rules).Elem(), field{})
	if n.get("consecutive") != nil && b.Rules.Consecutive == 0 && b.Rules.Ratio == 0 {
		d.problem(n, path, "nothing opens it: say off")
	}
}

// Lanes are the policies a tool may run under, by lane, the default first.
type Lanes struct {
	Calls []string `key:"calls" doc:"For interactive calls. Left out: it takes none."`
	Jobs  []string `key:"jobs" doc:"For background jobs. Left out: it takes none."`
}

// decode reads one list for both lanes, or a mapping.
func (l *Lanes) decode(d *decoder, n *node, path string) {
	if n.kind == list {
		d.list(n, path, reflect.ValueOf(&l.Calls).Elem(), field{})
		l.Jobs = l.Calls
	} else if n.kind == mapping {
		d.structure(n, path, reflect.ValueOf(l).Elem())
	} else {
		d.wrong(n, path, "a list of policies, or a mapping of calls and jobs")
		return
	}
	if len(l.Calls)+len(l.Jobs) == 0 {
		d.problem(n, path, "names no policy: nothing would limit the tool")
	}
}

// Argv is a program with its fixed arguments.
type Argv []string

// decode reads a program alone, or a list.
func (a *Argv) decode(d *decoder, n *node, path string) {
	plain := (*[]string)(a)
	if n.kind == list {
		d.list(n, path, reflect.ValueOf(plain).Elem(), field{})
	} else if program, ok := d.text(n, path, "text, or a list"); ok {
		*plain = []string{program}
		if raw, replaced := d.raw[path]; replaced {
			d.raw[path+"[0]"] = raw // it is printed as a list
		}
	}
	if n.kind == list && len(n.items) == 0 || len(*plain) > 0 && (*plain)[0] == "" {
		d.problem(n, path, "is empty: want a program")
	}
}

// Class is what a status of a tool means.
type Class string

var classes = []string{classify.Transient.String(), classify.Permanent.String(), classify.Unclassified.String()}

func (c *Class) decode(d *decoder, n *node, path string) {
	d.scalar(n, path, reflect.ValueOf((*string)(c)).Elem(), field{one: classes})
}

// SchemaRef is a JSON Schema, written in the file or named by a path.
type SchemaRef struct {
	File     string
	Document []byte         // JSON
	Compiled *schema.Schema // nil after a problem
}

const maxSchemaFile = schema.MaxSchema

func (s *SchemaRef) decode(d *decoder, n *node, path string) {
	switch n.kind {
	case mapping:
		var b bytes.Buffer
		if !toJSON(&b, n) {
			d.problem(n, path, "is not JSON: a number in it is written as only YAML allows")
			return
		}
		s.Document = b.Bytes()
	case text:
		name, ok := d.text(n, path, "text")
		if !ok {
			return
		}
		data, err := readBounded(d.path(name), maxSchemaFile)
		if err != nil {
			d.problem(n, path, "reading the schema: %v", err)
			return
		}
		s.File, s.Document = name, data
	default:
		d.wrong(n, path, "a JSON Schema, or the path of a file with one")
		return
	}
	compiled, err := schema.Compile(s.Document)
	if err != nil {
		d.problem(n, path, "%v", err)
		return
	}
	s.Compiled = compiled
}

// toJSON writes a tree as JSON, with numbers as they stand in the file.
func toJSON(b *bytes.Buffer, n *node) bool {
	switch n.kind {
	case mapping:
		b.WriteByte('{')
		for i, e := range n.entries {
			separate(b, i)
			quote(b, e.key)
			b.WriteByte(':')
			if !toJSON(b, e.value) {
				return false
			}
		}
		b.WriteByte('}')
	case list:
		b.WriteByte('[')
		for i, item := range n.items {
			separate(b, i)
			if !toJSON(b, item) {
				return false
			}
		}
		b.WriteByte(']')
	case null:
		b.WriteString("null")
	case number, boolean:
		literal := strings.ToLower(n.value)
		b.WriteString(literal)
		return json.Valid([]byte(literal))
	default:
		quote(b, n.value)
	}
	return true
}

func separate(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

func quote(b *bytes.Buffer, s string) {
	q, _ := json.Marshal(s) // a string always marshals
	b.Write(q)
}
