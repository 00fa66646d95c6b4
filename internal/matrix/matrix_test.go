package matrix

import (
	"fmt"
	"strconv"
	"testing"
)

// most is more than any story has of any operation: a fault that still fires is
// one that makes the story begin again.
const most = 60

// cell is one story with one kind of fault at one kind of operation.
type cell struct {
	s    *story
	in   setup
	op   op
	kind kind
}

func (c cell) String() string { return fmt.Sprintf("%s/%s-%s-%s", c.s.name, c.op, c.kind, c.in) }

// run plays the story with the fault at the 1st, 2nd, ... operation until a run ends
// without it, and returns at how many it happened.
func (c cell) run(t *testing.T) (fired int) {
	t.Run(c.String(), func(t *testing.T) {
		for n := 1; ; n++ {
			f := newFault(c.in, c.op, c.kind, n)
			t.Run(strconv.Itoa(n), func(t *testing.T) { perform(t, c.s, f) })
			if !f.fired() {
				break
			}
			if fired = n; n == most {
				t.Fatal("the fault never stops")
			}
		}
		if least := c.s.least(c.op, c.kind); fired < least {
			t.Errorf("the fault happened %d times, want at least %d: it was not looked for where it is", fired, least)
		}
	})
	return fired
}

// TestEveryStorySurvivesOneKindOfFault plays every story with one kind of fault at one
// kind of operation, both in rotation, so that each of them is met. The full
// matrix is TestSoakMatrix.
func TestEveryStorySurvivesOneKindOfFault(t *testing.T) {
	for i, s := range stories() {
		all := cells(s)
		all[i*13%len(all)].run(t)
	}
}

// cells are a story's row of the full matrix. A process that dies takes an embedded
// server along, as in the configuration that is benchmarked; connections break, and
// the server goes away, where it is another's.
func cells(s *story) (row []cell) {
	for _, o := range ops {
		for _, k := range kinds {
			in := embedded
			if o != commit && (k == refused || k == lost) || k == serverGone {
				in = apart
			}
			if exists(o, k) {
				row = append(row, cell{s, in, o, k})
			}
		}
	}
	return row
}
