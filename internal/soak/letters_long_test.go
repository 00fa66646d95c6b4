//go:build soak

package soak

import (
	"testing"
	"time"
)

// A hundred thousand letters in 50 groups: a look right after the start takes less than
// two seconds, and they cost less than 200 MB.
func TestSoakAHundredThousandLetters(t *testing.T) { manyLetters(t, 100_000, 2*time.Second, 200) }
