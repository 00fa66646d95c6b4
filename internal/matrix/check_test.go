package matrix

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// ends waits until every call has ended and nothing is under way or owed any more.
func (p *play) ends() {
	p.t.Helper()
	for _, c := range p.s.calls {
		p.outcome(c.name, c.generation)
	}
	p.until(3*time.Minute, "settling of every delivery and of what is owed", func() bool { return p.left() == "" })
	p.pass(20 * time.Second) // nothing comes back
}

// left is what is still under way or owed.
func (p *play) left() string {
	var st control.Status
	if err := p.ask(control.VerbStatus, control.Empty{}, &st); err != nil {
		return err.Error()
	}
	if n := p.w.Inside(); st.Owed+st.Running+st.Waiting+n > 0 {
		return fmt.Sprintf("%d owed, %d running, %d waiting, %d messages inside", st.Owed, st.Running, st.Waiting, n)
	}
	return ""
}

// calm reports whether the fault had to leave no trace.
func (p *play) calm() bool {
	return !p.f.fired() || !p.s.late && !disturbs(p.f.op, p.f.kind)
}

// holds checks the promises from outside.
func (p *play) holds() {
	p.t.Helper()
	for _, c := range p.s.calls {
		p.ended(c)
	}
	p.executed()
	p.paid()
	p.audited()
	for _, b := range p.stage.broken {
		p.t.Error(b)
	}
	if n := p.w.Inside(); n != 0 {
		p.t.Errorf("I12: %d messages are still inside", n)
	}
	p.w.Verify()
}

// ended checks one call's outcomes and letters: I1, I10, I14.
func (p *play) ended(c call) {
	p.t.Helper()
	o, m := p.w.Stored(p.s.msg(c.name)), p.s.msg(c.name)
	allowed := []schemas.Status{c.want}
	if !p.calm() {
		allowed = append(allowed, c.may...)
	}
	if o.Generation != c.generation || !slices.Contains(allowed, o.Status) {
		p.t.Errorf("%s: generation %d is %s %s, want %v", c.name, o.Generation, o.Status, o.Code(), allowed)
	}
	p.heard.mu.Lock()
	defer p.heard.mu.Unlock()
	for g := range c.generation + 1 {
		of := fmt.Sprintf("%s.%d", o.Call, g)
		if ids := p.heard.ids[of]; len(ids) > 1 || g == o.Generation && len(ids) == 1 && ids[o.ID] == "" {
			p.t.Errorf("I1: %s: outcomes %v were heard of, %s is stored", of, slices.Sorted(maps.Keys(ids)), o.ID)
		}
		if g == o.Generation {
			continue
		}
		for _, status := range p.heard.ids[of] {
			if !slices.Contains(c.first, status) {
				p.t.Errorf("%s was %s, want %v", of, status, c.first)
			}
		}
	}
	d := p.show(c.name)
	if d == nil || d.Outcome == nil || d.Outcome.ID != o.ID {
		p.t.Errorf("I1: the ledger's outcome of %s is not the stored one: %+v", c.name, d)
	}
	for _, at := range p.stage.starts(o.Call) {
		if end := o.Timing.Published.Add(c.runFor); c.runFor > 0 && at.Add(attemptTimeout).After(end) {
			p.t.Errorf("I5: %s started %s before the run's deadline and may take %s", c.name, end.Sub(at), attemptTimeout)
		}
	}
	p.lettered(c, o, m)
}

// lettered checks that what ended badly, and only that, left a letter.
func (p *play) lettered(c call, o *schemas.Outcome, m worldtest.Msg) {
	p.t.Helper()
	bad := o.Status == schemas.Failed || o.Status == schemas.UnknownOutcome || o.Status == schemas.Exhausted
	var active []string
	for _, l := range worldtest.Ask[deadletter.Page](p.w, control.VerbLetterList, deadletter.Filter{State: string(schemas.LetterActive), Run: m.Run}).Letters {
		if l.Call == o.Call {
			active = append(active, l.ID)
		}
	}
	want := []string{fmt.Sprintf("%s.%d", o.Call, o.Generation)}
	if !bad || c.edited {
		want = nil
	}
	if !slices.Equal(active, want) {
		p.t.Errorf("I14: %s is %s and its letters are %v", m.Key, o.Status, active)
	}
}

// executed bounds what the tools saw: I2 and I8 hold at the entry of each.
func (p *play) executed() {
	p.t.Helper()
	n := p.stage.count()
	if p.calm() && n != p.s.execs {
		p.t.Errorf("%d executions, want %d", n, p.s.execs)
	}
	if n > p.s.execs+1 {
		p.t.Errorf("%d executions for one fault, want at most %d", n, p.s.execs+1)
	}
}

// paid holds the accounts against what was recorded and what the tools saw: I3, I4.
func (p *play) paid() {
	p.t.Helper()
	attempts, writes, seen := 0, 0, 0
	for _, c := range p.s.calls {
		d := p.show(c.name)
		if d == nil {
			p.t.Errorf("the ledger does not know %s", c.name)
			continue
		}
		for _, a := range d.Timeline {
			attempts++
			if d.Terms.Write() && !a.Reconcile {
				writes++
			}
		}
		if n := p.stage.of(c.tool, d.Call); n > len(d.Timeline) {
			p.t.Errorf("I4: %s: %d executions, %d attempts recorded", c.name, n, len(d.Timeline))
		}
	}
	seen = p.stage.count()
	a := p.account(run)
	if a.Attempts != attempts || a.Effects != writes || seen > attempts || p.calm() && seen != attempts {
		p.t.Errorf("I4: charged %d attempts and %d side effects, recorded %d and %d, executed %d", a.Attempts, a.Effects, attempts, writes, seen)
	}
	if a.Attempts > a.Limits.Attempts || a.Effects > a.Limits.SideEffects {
		p.t.Errorf("I3: %d of %d attempts, %d of %d side effects", a.Attempts, a.Limits.Attempts, a.Effects, a.Limits.SideEffects)
	}
	if r := worldtest.Ask[control.RunDetail](p.w, control.VerbRunShow, control.RunQuery{Run: run}); len(r.Holds) != 0 {
		p.t.Errorf("B50: holds are left: %+v", r.Holds)
	}
}

// audited checks that every decision of an operator is on the audit stream, once.
func (p *play) audited() {
	p.t.Helper()
	got := map[string]int{}
	for _, action := range p.w.Audits() {
		got[action]++
	}
	if !maps.Equal(got, p.s.audits) {
		p.t.Errorf("audited %v, want %v", got, p.s.audits)
	}
}
