package console

import (
	"maps"
	"slices"
)

// Patterns are all that is served behind the sign-in, for tests that go through it.
func Patterns() []string {
	var all []string
	for _, part := range routes {
		all = slices.AppendSeq(all, maps.Keys(part))
	}
	slices.Sort(all)
	return all
}
