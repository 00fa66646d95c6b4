package model

import (
	"strings"
	"testing"
	"time"

	"tollgate/internal/natstest"
)

// Sequences that once went wrong. Each is played against the whole model.
var found = []struct {
	name string
	plan plan
}{
	{"I9 a replay of arguments that violate the schema is not dispatched", plan{
		{kind: publish, jobs: true, bad: true, deadline: 20 * time.Second, attempts: -1, effects: -1},
		{kind: replay},
	}},
	{"I10 what an operator said has happened does not run again", plan{
		{kind: publish, steps: []step{stops, waitsLong}, deadline: 50 * time.Second, attempts: -1, effects: -1},
		{kind: replay},
		{kind: happened},
		{kind: resend},
	}},
}

func TestFound(t *testing.T) {
	for _, tc := range found {
		t.Run(tc.name, func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				if problems := play(newHouse(t), "run", tc.plan); len(problems) > 0 {
					t.Errorf("%s\nthe sequence:\n%s", strings.Join(problems, "\n"), tc.plan)
				}
			})
		})
	}
}
