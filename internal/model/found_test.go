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
	{"I9 of two that come together, one lowers the limit that the other meets", plan{
		{kind: publish, tool: 1, below: 3, steps: []step{stops}, deadline: 50 * time.Second, attempts: -1, effects: -1},
		{kind: outage, wait: 100 * time.Millisecond},
		{kind: replay},
		{kind: publish, tool: 2, deadline: 50 * time.Second, attempts: -1, effects: 0},
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
