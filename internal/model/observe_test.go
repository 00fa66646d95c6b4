package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// see gives the model what the tools saw.
func (g *game) see() {
	events, process := g.h.new()
	for _, e := range events {
		switch {
		case e.starts && e.process != process:
			g.wrong("I2: a process that was killed executed %s", e.in.Call)
		case e.starts:
			g.begins(e.in, e.at)
		case e.process == process:
			g.ends(e.in.Call, e.step, e.at)
		}
	}
}

// observe looks at everything that can be seen from outside, once nothing moves.
func (g *game) observe() {
	still()
	g.see()
	told := append(g.h.told(), g.kept()...)
	for _, o := range told {
		// Of two calls that ended, the one heard of second may be the one that came
		// first and named the limits at which the other ended.
		if c := g.byID[o.Call]; c != nil && o.Status != schemas.Rejected {
			g.admit(c, o.Timing.Settled)
		}
	}
	for _, o := range told {
		g.hear(o)
	}
	g.accounts()
}

// kept is what the stream holds of calls that are pending, as far as the model knows:
// what was published while the server was away from its clients is heard by nobody.
func (g *game) kept() (all []*schemas.Outcome) {
	for _, c := range g.calls {
		if !c.pending || !c.admitted && c.maybe && time.Since(c.published) > 2*time.Minute {
			continue
		}
		if o := g.h.Stored(c.message(0)); o != nil && o.Generation >= c.generation {
			all = append(all, o)
		}
	}
	return all
}

// hear holds an outcome on its way against what the call had already: I1.
func (g *game) hear(o *schemas.Outcome) {
	c := g.byID[o.Call]
	if c == nil || o.Status == schemas.Rejected {
		return
	}
	before := c.outcomes[o.Generation]
	switch {
	case before != nil && before.ID != o.ID:
		g.wrong("I1: %s has two outcomes: %s %s and %s %s", c, before.ID, before.Status, o.ID, o.Status)
	case before == nil && o.Generation == c.generation && c.pending:
		g.settles(c, o)
	case before == nil:
		g.wrong("I1: %s is told an outcome of generation %d: %s %s", c, o.Generation, o.ID, o.Status)
	}
}

// accounts holds every account against the model's: I3 and I4.
func (g *game) accounts() {
	var d control.RunDetail
	err := g.h.Ctl.Ask(context.Background(), control.VerbRunShow, control.RunQuery{Run: g.root}, &d)
	if len(g.run.accounts) == 0 {
		if err == nil {
			g.wrong("run %s has accounts, and nothing was charged to it: %+v", g.root, d.Accounts)
		}
		return
	}
	if err != nil {
		g.wrong("run %s: %v", g.root, err)
		return
	}
	for p, want := range g.run.accounts {
		a := d.Accounts[p]
		got := account{a.Attempts, a.Effects, a.Limits.Attempts, a.Limits.SideEffects, a.Named.Attempts, a.Named.SideEffects, a.Cancelled, !a.Limits.Deadline.IsZero()}
		if got != want {
			g.wrong("I3 I4: account %s is %+v, want %+v", p, got, want)
		}
		if got.open && (got.attempts > got.attemptsLimit || got.effects > got.effectsLimit) {
			g.wrong("I3: account %s has spent more than it has: %+v", p, got)
		}
	}
	if len(d.Accounts) != len(g.run.accounts) {
		g.wrong("run %s has %d accounts, want %d: %+v", g.root, len(d.Accounts), len(g.run.accounts), d.Accounts)
	}
}

// finish waits until nothing is on its way any more, and looks at the end of it all.
func (g *game) finish() {
	for end := time.Now().Add(4 * time.Minute); ; {
		g.observe()
		if len(g.problems) > 0 {
			return
		}
		open := g.open()
		if len(open) == 0 && g.h.Inside() == 0 {
			break
		}
		if time.Now().After(end) {
			g.wrong("I12: %d messages are inside, and lost are %s", g.h.Inside(), list(open))
			return
		}
		time.Sleep(2 * time.Second)
	}
	g.asked.Wait()
	g.observe()
	g.letters()
	g.audited()
	g.answered()
	rep := verified(g.h)
	if !rep.OK {
		g.wrong("verify: %+v", rep.Checks)
	}
}

// open names the calls that must end and have not.
func (g *game) open() (all []string) {
	for _, c := range g.calls {
		if c.pending && (c.admitted || !c.maybe) {
			all = append(all, fmt.Sprintf("%s, last %s", c, c.ended()))
		}
	}
	return all
}

// letters are exactly those that should be, in their states.
func (g *game) letters() {
	var got []string
	refused := 0
	var p deadletter.Page
	if err := g.h.Ctl.Ask(context.Background(), control.VerbLetterList, deadletter.Filter{Run: g.root, State: "all", Limit: 1000}, &p); err != nil {
		g.wrong("letters: %v", err)
		return
	}
	for _, l := range p.Letters {
		if l.Reason == schemas.ReasonRejected {
			refused++
			continue
		}
		got = append(got, fmt.Sprintf("%s %s %s", l.ID, l.Reason, l.State))
	}
	slices.Sort(got)
	if want := g.wantLetters(); !slices.Equal(got, want) {
		g.wrong("I12: the dead letters are %s\nwant %s", list(got), list(want))
	}
	want := 0
	for _, c := range g.calls {
		want += c.refusals
	}
	if refused != want {
		g.wrong("I12 I13: %d letters of refused messages, want %d", refused, want)
	}
}

// audited counts the operators' decisions on the audit stream: I10. An entry may be
// there twice after a crash, under its one number.
func (g *game) audited() {
	got, seen := map[string]int{}, map[uint64]bool{}
	st, err := g.h.JS.Stream(context.Background(), "TOLLGATE_AUDIT")
	if err != nil {
		g.wrong("audit: %v", err)
		return
	}
	for last := st.CachedInfo().State.LastSeq; g.h.audits < last; {
		g.h.audits++
		raw, err := st.GetMsg(context.Background(), g.h.audits)
		if err != nil {
			g.wrong("audit: %v", err)
			return
		}
		var a dedupe.Audit
		if err := json.Unmarshal(raw.Data, &a); err != nil {
			g.wrong("audit: %v", err)
		}
		if a.Allowed && g.concerns(a.Target) && !seen[a.Number] { // what was refused is audited, and changes nothing
			seen[a.Number] = true
			got[a.Action]++
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(g.audits) {
		g.wrong("I10: audited are %v, done were %v", got, g.audits)
	}
}

func (g *game) concerns(target string) bool {
	if run, ok := strings.CutPrefix(target, "run "); ok {
		return run == g.root || strings.HasPrefix(run, g.root+"/")
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(target, "call "), ".")
	return g.byID[id] != nil
}

// answered holds the replies against the outcomes: one answer, however it came.
func (g *game) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.replies {
		switch {
		case r.err != nil, r.o.Code() == schemas.CodeStillRunning, r.o.Code() == schemas.CodeLedgerDown:
			// the dispatcher or the server went away meanwhile
		case r.conflict:
			if r.o.Code() != schemas.CodeKeyConflict {
				g.wrong("I13: %s with other arguments was answered %s %s", r.call, r.o.Status, r.o.Code())
			}
		case r.call.outcomes[r.o.Generation] == nil || r.call.outcomes[r.o.Generation].ID != r.o.ID:
			g.wrong("I1: %s was answered %s %s %s, and has no such outcome", r.call, r.o.ID, r.o.Status, r.o.Code())
		}
	}
}

func verified(h *house) (rep control.VerifyReport) {
	h.Until(time.Minute, "nothing is owed", func() bool {
		var st control.Status
		return h.Ctl.Ask(context.Background(), control.VerbStatus, control.Empty{}, &st) == nil && st.Owed == 0
	})
	if err := h.Ctl.Ask(context.Background(), control.VerbVerify, control.Empty{}, &rep); err != nil {
		rep.Checks = append(rep.Checks, control.Check{Name: err.Error()})
	}
	return rep
}
