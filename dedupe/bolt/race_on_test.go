//go:build race

package bolt_test

// scale divides the sizes of tests about size, which the race detector says nothing
// about.
const scale = 10
