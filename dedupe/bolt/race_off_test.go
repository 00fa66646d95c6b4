//go:build !race

package bolt_test

// scale divides the sizes of tests about size.
const scale = 1
