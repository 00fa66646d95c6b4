package model

import (
	"bytes"
	"fmt"
	"time"

	"tollgate/dispatcher"
	"tollgate/schemas"
)

// call is what the model knows of one call.
type call struct {
	id, key, path string
	tool          tool
	jobs, bad     bool
	body          []byte
	attempts      int // limits that the message names; -1: none
	effects       int
	published     time.Time
	deadline      time.Time // of this generation
	window        time.Duration
	maybe         bool // asked for, and nobody said that it was taken
	admitted      bool // something was seen of it

	generation int
	tries      int // of this generation
	pending    bool
	running    bool
	last       *ending // of this generation's last execution
	ambiguous  bool
	cancelled  bool // by its own name
	outcomes   map[int]*schemas.Outcome
	letters    map[int]*letter
	refusals   int // of messages with its key and other arguments, on the jobs lane
}

// ending is how an execution ended.
type ending struct {
	step step
	at   time.Time
}

// letter is a dead letter of one generation.
type letter struct {
	reason    string
	discarded bool
}

// reads the contract: what an attempt's end says.
func (s step) noAnswer() bool  { return s == silent || s == panics }
func (s step) transient() bool { return s == busy || s == waits || s == waitsLong || s.noAnswer() }
func (s step) stated() time.Duration {
	return map[step]time.Duration{waits: 2 * time.Second, waitsLong: 15 * time.Second}[s]
}

// longest is the longest delay before the next attempt.
func (c *call) longest() time.Duration {
	if w := c.last.step.stated(); w > 0 {
		return w * 6 / 5
	}
	return min(backoffCap, backoffBase<<(c.tries-1))
}

// retryable says whether the contract lets the call run again after its last execution.
func (c *call) retryable() bool { return c.last == nil || c.last.step.transient() && !c.tool.never }

func (c *call) margin() time.Duration { return min(2*time.Second, c.window/10) }

func (c *call) String() string {
	return fmt.Sprintf("%s (%s, generation %d)", c.key, c.tool.name, c.generation)
}

// open starts a generation.
func (c *call) open(generation int, published time.Time, window time.Duration) {
	c.generation, c.published, c.window, c.deadline = generation, published, window, published.Add(window)
	c.tries, c.pending, c.running, c.last, c.cancelled = 0, true, false, nil, false
}

// model is everything the model knows of one sequence.
type model struct {
	root     string
	run      *run
	calls    []*call
	byID     map[string]*call
	audits   map[string]int // action → how many
	problems []string
}

func newModel(root string) *model {
	return &model{root: root, run: &run{accounts: map[string]account{}}, byID: map[string]*call{}, audits: map[string]int{}}
}

func (m *model) wrong(format string, args ...any) {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
}

func (m *model) add(c *call) {
	m.calls = append(m.calls, c)
	m.byID[c.id] = c
}

// admit notes the first sign that a call was taken: that opens its accounts. The
// run's time began when the message was published.
func (m *model) admit(c *call, at time.Time) {
	if !c.admitted {
		c.admitted = true
		if m.run.started.IsZero() {
			m.run.started = c.published
		}
		m.run.admit(at, c.path, c.attempts, c.effects)
	}
}

// begins is an execution that a tool saw: I2 to I10 and I13 say whether it may be.
func (m *model) begins(in dispatcher.Invocation, at time.Time) {
	c := m.byID[in.Call]
	if c == nil {
		m.wrong("I13: a tool was given call %s, which nobody made: %+v", in.Call, in)
		return
	}
	m.admit(c, at)
	if why := m.mayBegin(c, in, at); why != "" {
		m.wrong("%s: attempt %d of %s: %s", at.Format("15:04:05.000"), in.Attempt, c, why)
	}
	m.run.charge(at, c.path, c.tool.write)
	c.tries++
	c.running = true
}

func (m *model) mayBegin(c *call, in dispatcher.Invocation, at time.Time) string {
	ends := at.Add(timeout + c.margin())
	dimension := spent(m.run.accounts, c.path, c.tool.write)
	switch {
	case !c.pending:
		return "I10: it had ended"
	case c.running:
		return "I2: the attempt before has not ended"
	case !c.retryable() && c.tool.never:
		return "I2: it must not be repeated"
	case !c.retryable():
		return fmt.Sprintf("I8: the last one ended %s", c.last.step)
	case c.bad:
		return "its arguments violate the schema"
	case c.tries >= maxTries:
		return "I3: it has no attempt left"
	case dimension != "":
		return "I3 I9: its run has none left of " + dimension
	case cancelled(m.run.accounts, c.path) || c.cancelled:
		return "it was cancelled"
	case ends.After(c.deadline) || ends.After(m.run.deadline()):
		return fmt.Sprintf("I5: it can end at %s, and the deadline is %s, of the run %s", ends, c.deadline, m.run.deadline())
	case c.last != nil && at.Before(c.last.at.Add(c.last.step.stated())):
		return fmt.Sprintf("I6: %s after one that ended %s", at.Sub(c.last.at), c.last.step)
	case in.Key != c.id || !bytes.Equal(in.Arguments, c.body):
		return fmt.Sprintf("I7 I13: key %s, arguments %s", in.Key, in.Arguments)
	case in.Generation != c.generation || in.Attempt != c.tries+1 || in.Tool != c.tool.name || in.Run != c.path:
		return fmt.Sprintf("it is not what is due: %+v", in)
	}
	return ""
}

// ends is how an execution ended, as the tool knows it.
func (m *model) ends(id string, s step, at time.Time) {
	c := m.byID[id]
	if c == nil || !c.running {
		return // of a process that is dead
	}
	c.running, c.last = false, &ending{s, at}
	switch {
	case !c.tool.write, s == succeeds:
		c.ambiguous = false
	case s.noAnswer():
		c.ambiguous = true
	case !s.transient():
		c.ambiguous = false
	}
}
