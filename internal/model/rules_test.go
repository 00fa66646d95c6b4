package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tollgate/schemas"
)

// says is one way a call may end. An empty code or reason is not looked at.
type says struct {
	status schemas.Status
	code   string
	reason string // of RUN_BUDGET_EXHAUSTED
}

// mayEnd lists how a pending call may end at an instant, as the two tables of the
// contract say: from the top, first match wins. What the jitter or the order within
// an instant leaves open adds an entry and goes on.
func (m *model) mayEnd(c *call, at time.Time) []says {
	if c.running {
		return nil
	}
	if !c.retryable() {
		return []says{c.decided()}
	}
	var all []says
	unless := func(status schemas.Status, code string) {
		if c.ambiguous {
			status = schemas.UnknownOutcome
		}
		all = append(all, says{status: status, code: code})
	}
	exhausted := func(code, reason string) { all = append(all, says{schemas.Exhausted, code, reason}) }
	if cancelled(m.run.accounts, c.path) || c.cancelled {
		unless(schemas.Cancelled, schemas.CodeCancelled)
		return all
	}
	if c.tries >= maxTries {
		exhausted(schemas.CodeCallAttempts, "")
		return all
	}
	refused, looks := 0, 0
	m.run.around(at, func(as map[string]account) {
		if looks++; as[c.path].open {
			if d := spent(as, c.path, c.tool.write); d != "" {
				refused++
				exhausted(schemas.CodeRunBudget, d)
			}
		}
	})
	if refused > 0 && refused == looks {
		return all
	}
	if code, reason, sure := m.fits(c, at); code != "" {
		if exhausted(code, reason); sure {
			return all
		}
	}
	switch {
	case c.bad && c.tries == 0 && m.run.repairs < runRepairs:
		unless(schemas.Repair, schemas.CodeInvalidArguments)
	case c.bad && c.tries == 0:
		all = append(all, says{status: schemas.Failed, code: schemas.CodeMaxRepairs})
	case c.last != nil && c.last.step.stated() > maxRetryAfter && !c.jobs:
		unless(schemas.Unavailable, schemas.CodeWaitTooLong)
	}
	return all
}

// decided is the end of a call whose last execution must not be repeated.
func (c *call) decided() says {
	switch s := c.last.step; {
	case s == succeeds:
		return says{status: schemas.Succeeded}
	case s == refuses:
		return says{status: schemas.ToolError}
	case s.noAnswer():
		return says{status: schemas.UnknownOutcome}
	case s.transient():
		return says{status: schemas.Failed, code: schemas.CodeUnsafeToRepeat}
	default:
		return says{status: schemas.Failed}
	}
}

// fits says which deadline is in the way of an attempt, and whether it surely is:
// the jitter is not known.
func (m *model) fits(c *call, at time.Time) (code, reason string, sure bool) {
	first := c.deadline
	if m.run.deadline().Before(first) {
		first = m.run.deadline()
	}
	end := at.Add(timeout + c.margin())
	switch {
	case !at.Before(m.run.deadline()):
		return schemas.CodeRunBudget, "elapsed_time", true
	case !at.Before(c.deadline):
		return schemas.CodeCallDeadline, "", true
	case end.After(first):
		return schemas.CodeDoesNotFit, "", true
	case c.last != nil && end.Add(c.last.step.stated()).After(first):
		return schemas.CodeDoesNotFit, "", at.Equal(c.last.at)
	case c.last != nil && end.Add(c.longest()).After(first):
		return schemas.CodeDoesNotFit, "", false
	}
	return "", "", false
}

// settles is an outcome of the call's current generation: I1 and I14 say whether it
// may be.
func (m *model) settles(c *call, o *schemas.Outcome) {
	m.admit(c, o.Timing.Settled)
	may := m.mayEnd(c, o.Timing.Settled)
	got := says{status: o.Status, code: o.Code()}
	if o.Error != nil {
		got.reason = o.Error.Reason
	}
	if !slices.ContainsFunc(may, func(s says) bool {
		return s.status == got.status && (s.code == "" || s.code == got.code) && (s.code == "" || s.reason == got.reason)
	}) {
		m.wrong("%s: %s ended %v after %d attempts (last %s), and may end %v", o.Timing.Settled.Format("15:04:05.000"), c, got, c.tries, c.ended(), may)
	}
	if want := next(o.Status, c.ambiguous); o.NextAction != want {
		m.wrong("%s ended %s with next action %s, want %s", c, o.Status, o.NextAction, want)
	}
	if n := tried(o); n != c.tries {
		m.wrong("I4: the outcome of %s tells %d attempts, the tool saw %d", c, n, c.tries)
	}
	if o.Status == schemas.Repair {
		m.run.repairs++
	}
	m.over(c, o)
}

// over closes the generation with its one outcome.
func (m *model) over(c *call, o *schemas.Outcome) {
	c.pending = false
	c.outcomes[c.generation] = o
	if reason := c.buried(o); reason != "" {
		c.letters[c.generation] = &letter{reason: reason}
	}
}

func (c *call) ended() string {
	if c.last == nil {
		return "none"
	}
	return c.last.step.String()
}

func tried(o *schemas.Outcome) (n int) {
	for _, a := range o.Attempts {
		if a.Generation == o.Generation {
			n++
		}
	}
	return n
}

func next(s schemas.Status, ambiguous bool) schemas.Action {
	switch {
	case s == schemas.Repair:
		return schemas.RepairArgs
	case s == schemas.Failed:
		return schemas.Escalate
	case s == schemas.UnknownOutcome, s == schemas.Exhausted && ambiguous:
		return schemas.Reconcile
	}
	return schemas.Return
}

// buried is the reason of the dead letter that an outcome leaves, or "".
func (c *call) buried(o *schemas.Outcome) string {
	wide := c.jobs || c.generation > 0
	switch o.Status {
	case schemas.Failed:
		return "failed"
	case schemas.UnknownOutcome:
		return "unknown_outcome"
	case schemas.Exhausted:
		switch {
		case o.Code() == schemas.CodeCallAttempts:
			return "exhausted_attempts"
		case o.Code() == schemas.CodeRunBudget:
			return "exhausted_" + o.Error.Reason
		}
		return "exhausted_elapsed_time"
	case schemas.ToolError, schemas.Repair, schemas.Unavailable:
		if wide {
			return string(o.Status)
		}
	case schemas.Cancelled:
		if c.generation > 0 {
			return "cancelled"
		}
	}
	return ""
}

// wantLetters is every dead letter there should be, as "key.generation reason state".
func (m *model) wantLetters() []string {
	var all []string
	for _, c := range m.calls {
		for g, l := range c.letters {
			state := "active"
			switch {
			case g < c.generation && c.pending && g == c.generation-1:
				state = "replaying"
			case g < c.generation:
				state = "resolved"
			case l.discarded:
				state = "discarded"
			}
			all = append(all, fmt.Sprintf("%s.%d %s %s", c.id, g, l.reason, state))
		}
	}
	slices.Sort(all)
	return all
}

func list(lines []string) string { return "\n\t" + strings.Join(lines, "\n\t") }
