package config

import (
	_ "embed"
	"slices"
)

//go:embed example.yaml
var example []byte

// Example returns the file that config init writes: marked examples of an
// interactive and a background policy, and of each kind of tool.
func Example() []byte { return slices.Clone(example) }
