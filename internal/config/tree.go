package config

import (
	"errors"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// Bounds of a file. Aliases are followed, and count each time.
const (
	maxBytes = 4 << 20
	maxNodes = 200_000
	maxDepth = 64
)

type nodeKind uint8

const (
	mapping nodeKind = iota + 1
	list
	text    // a quoted or plain string
	number  // an integer or a fraction
	boolean // true or false
	null
)

func (k nodeKind) String() string {
	return [...]string{"", "a mapping", "a list", "text", "a number", "true or false", "nothing"}[k]
}

// node is a value of the file with its place.
type node struct {
	kind  nodeKind
	value string // of a scalar, as written
	place
	entries []entry // of a mapping
	items   []*node // of a list
}

type entry struct {
	key          string
	line, column int
	value        *node
}

func (n *node) get(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

func (n *node) put(key string, value *node) {
	n.remove(key)
	n.entries = append(n.entries, entry{key: key, value: value})
}

func (n *node) remove(key string) {
	n.entries = slices.DeleteFunc(n.entries, func(e entry) bool { return e.key == key })
}

// parse reads one YAML document. It is the only place that knows the YAML library.
// The node is nil when nothing could be read.
func parse(file string, data []byte) (*node, []Problem) {
	if len(data) > maxBytes {
		return nil, []Problem{{File: file, Message: "the file is bigger than 4MiB"}}
	}
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil {
		return nil, syntaxProblems(file, err)
	}
	c := converter{file: file}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, []Problem{{File: file, Message: "is not one YAML document"}}
	}
	root := c.convert(doc.Content[0], 0)
	return root, c.problems
}

func syntaxProblems(file string, err error) []Problem {
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &many) && len(many.Errors) > 0:
		one = many.Errors[0]
	case errors.As(err, &one):
	default:
		return []Problem{{File: file, Message: "is not YAML"}}
	}
	p := Problem{File: file, Line: one.Mark.Line, Column: one.Mark.Column, Message: one.Message}
	switch {
	case strings.Contains(p.Message, "no documents"):
		p.Message = "the file is empty: tollgate config init writes an example"
	case strings.Contains(p.Message, "multiple"):
		p.Message = "more than one YAML document: remove the lines of three dashes"
	case strings.Contains(p.Message, "unknown anchor"):
		// The library's text repeats the value, which may be a password.
		p.Message = "not YAML: a value that begins with * must be in quotes"
	default:
		p.Message = "not YAML: " + p.Message
	}
	return []Problem{p}
}

// converter turns the library's tree into ours, with aliases followed.
type converter struct {
	file     string
	nodes    int
	full     bool
	problems []Problem
}

func (c *converter) complain(n *yaml.Node, message string) {
	c.problems = append(c.problems, Problem{File: c.file, Line: n.Line, Column: n.Column, Message: message})
}

func (c *converter) convert(n *yaml.Node, depth int) *node {
	out := &node{kind: null, place: place{file: c.file, line: n.Line, column: n.Column}}
	if c.nodes++; c.nodes > maxNodes || depth > maxDepth {
		if !c.full {
			c.complain(n, "too many or too deeply nested values: does an alias contain itself?")
		}
		c.full = true
		return out
	}
	switch n.Kind {
	case yaml.AliasNode:
		target := c.convert(n.Alias, depth+1)
		target.line, target.column = n.Line, n.Column
		return target
	case yaml.MappingNode:
		out.kind = mapping
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content) && !c.full; i += 2 {
			key := n.Content[i]
			if seen[key.Value] && key.Kind == yaml.ScalarNode {
				c.complain(key, "the key "+key.Value+" is there twice")
				continue
			}
			seen[key.Value] = true
			c.member(out, key, n.Content[i+1], depth)
		}
	case yaml.SequenceNode:
		out.kind = list
		for _, item := range n.Content {
			if !c.full {
				out.items = append(out.items, c.convert(item, depth+1))
			}
		}
	default:
		out.value = n.Value
		out.kind = c.scalar(n)
	}
	return out
}

func (c *converter) member(out *node, key, value *yaml.Node, depth int) {
	switch {
	case key.Tag == "!!merge":
		c.complain(key, "merge keys are not supported: write the values out, or use an alias for a whole value")
		return
	case key.Kind != yaml.ScalarNode:
		c.complain(key, "a key must be a name")
		return
	}
	v := c.convert(value, depth+1)
	v.keyLine, v.keyColumn = key.Line, key.Column
	out.entries = append(out.entries, entry{key.Value, key.Line, key.Column, v})
}

func (c *converter) scalar(n *yaml.Node) nodeKind {
	switch n.Tag {
	case "!!str", "!!timestamp", "":
		return text
	case "!!int", "!!float":
		return number
	case "!!bool":
		return boolean
	case "!!null":
		return null
	default:
		c.complain(n, "the tag "+n.Tag+" is not supported")
		return text
	}
}
