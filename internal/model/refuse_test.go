package model

import (
	"strings"
	"testing"
	"time"

	"tollgate/dispatcher"
	"tollgate/schemas"
)

// past is a call and its history, told to the model by hand.
type past struct {
	m  *model
	c  *call
	at time.Time
}

func newPast(tool tool) *past {
	p := &past{m: newModel("run"), at: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	p.c = &call{id: "c1", key: "k", path: "run/a", tool: tool, body: []byte("{}"), attempts: -1, effects: -1,
		outcomes: map[int]*schemas.Outcome{}, letters: map[int]*letter{}}
	p.m.add(p.c)
	p.c.open(0, p.at, 50*time.Second)
	return p
}

func (p *past) invocation() dispatcher.Invocation {
	return dispatcher.Invocation{Tool: p.c.tool.name, Run: p.c.path, Call: p.c.id, Key: p.c.id, Attempt: p.c.tries + 1, Generation: p.c.generation, Arguments: p.c.body}
}

// runs is an execution a while after what came before.
func (p *past) runs(after time.Duration, s step) {
	p.at = p.at.Add(after)
	p.m.begins(p.invocation(), p.at)
	p.m.ends(p.c.id, s, p.at)
}

func (p *past) ended(status schemas.Status, code string) {
	o := &schemas.Outcome{ID: "o", Call: p.c.id, Generation: p.c.generation, Status: status, NextAction: next(status, p.c.ambiguous), Timing: schemas.Timing{Settled: p.at}}
	for range p.c.tries {
		o.Attempts = append(o.Attempts, schemas.Attempt{Generation: p.c.generation})
	}
	if code != "" {
		o.Error = &schemas.Error{Code: code}
	}
	p.m.settles(p.c, o)
}

// The model itself: what the contract forbids is found, and what it allows is not.
func TestModelRefuses(t *testing.T) {
	read, keyed, never := tools[0], tools[1], tools[2]
	for name, tc := range map[string]struct {
		tool tool
		tell func(*past)
		want string // "": nothing is wrong
	}{
		"a retry that succeeds":           {read, func(p *past) { p.runs(0, waits); p.runs(2*time.Second, succeeds); p.ended(schemas.Succeeded, "") }, ""},
		"a retry before its time":         {read, func(p *past) { p.runs(0, waits); p.runs(1999*time.Millisecond, succeeds) }, "I6"},
		"an unsafe call twice":            {never, func(p *past) { p.runs(0, busy); p.runs(0, succeeds) }, "I2"},
		"an unsafe call that says failed": {never, func(p *past) { p.runs(0, silent); p.ended(schemas.Failed, "") }, "may end"},
		"a permanent failure again":       {read, func(p *past) { p.runs(0, stops); p.runs(0, succeeds) }, "I8"},
		"a fourth attempt":                {read, func(p *past) { p.runs(0, busy); p.runs(0, busy); p.runs(0, busy); p.runs(0, busy) }, "I3"},
		"after its outcome":               {read, func(p *past) { p.runs(0, succeeds); p.ended(schemas.Succeeded, ""); p.runs(0, succeeds) }, "I10"},
		"given up too early":              {read, func(p *past) { p.runs(0, busy); p.ended(schemas.Exhausted, schemas.CodeCallAttempts) }, "may end"},
		"given up in time": {read, func(p *past) {
			p.runs(0, busy)
			p.runs(0, busy)
			p.runs(0, busy)
			p.ended(schemas.Exhausted, schemas.CodeCallAttempts)
		}, ""},
		"an ambiguous call cancelled": {keyed, func(p *past) {
			p.runs(0, silent)
			p.m.run.cancel(p.at, "run")
			p.ended(schemas.Cancelled, schemas.CodeCancelled)
		}, "may end"},
		"an ambiguous call that is parked": {keyed, func(p *past) {
			p.runs(0, silent)
			p.m.run.cancel(p.at, "run")
			p.ended(schemas.UnknownOutcome, schemas.CodeCancelled)
		}, ""},
		"a cancelled call runs": {read, func(p *past) { p.m.run.cancel(p.at, "run"); p.runs(0, succeeds) }, "cancelled"},
		"too late":              {read, func(p *past) { p.runs(46*time.Second, succeeds) }, "I5"},
		"an attempt that nobody saw": {read, func(p *past) {
			p.runs(0, busy)
			p.c.tries++
			p.at = p.at.Add(time.Second)
			o := &schemas.Outcome{Status: schemas.Succeeded, NextAction: schemas.Return, Timing: schemas.Timing{Settled: p.at}}
			p.c.last.step = succeeds
			p.m.settles(p.c, o)
		}, "I4"},
		"other bytes": {read, func(p *past) {
			p.c.body = []byte("{ }")
			in := p.invocation()
			in.Arguments = []byte("{}")
			p.m.begins(in, p.at)
		}, "I7"},
		"a run that has nothing left": {keyed, func(p *past) {
			p.m.run.admit(p.at, p.c.path, -1, 0)
			p.runs(0, succeeds)
		}, "I9"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPast(tc.tool)
			tc.tell(p)
			got := strings.Join(p.m.problems, "; ")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("wrong: %q, want %q", got, tc.want)
			}
		})
	}
}
