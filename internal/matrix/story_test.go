package matrix

import (
	"context"
	"slices"
	"time"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// run is the run of every story.
const run = "r"

// call is one call of a story and how it ends.
type call struct {
	name       string
	tool       string
	run        string // "": run
	body       string
	header     map[string]string
	generation int              // the last one
	want       schemas.Status   // of it
	may        []schemas.Status // also, when the fault may cost an attempt or leave an effect in doubt
	first      []schemas.Status // of generation 0, where there are more
	edited     bool             // its letter is resolved by another call
	runFor     time.Duration    // the run's own deadline, from the publish; 0: none
}

// story is a life of some calls.
type story struct {
	name     string
	tools    map[string][]step
	calls    []call
	execs    int            // of all tools, without a fault
	audits   map[string]int // operators' decisions, by action
	none     []op           // operations that the story has none of
	plain    bool           // a retry is woken: there is no schedule
	unfired  bool           // a schedule there is, and it never comes to firing
	replayed bool           // tools go by the generation, not by the execution
	late     bool           // its end is a matter of time, which every fault takes
	steps    func(*play)
}

func (s *story) call(name string) call {
	i := slices.IndexFunc(s.calls, func(c call) bool { return c.name == name })
	return s.calls[i]
}

// msg is the message of a call.
func (s *story) msg(name string) worldtest.Msg {
	c := s.call(name)
	m := worldtest.Msg{Tool: c.tool, Run: run, Key: c.name, Body: c.body, Deadline: time.Hour, Header: c.header}
	if c.run != "" {
		m.Run = c.run
	}
	if c.runFor > 0 {
		m.Header = map[string]string{schemas.HeaderRunDeadline: time.Now().Add(c.runFor).UTC().Format(time.RFC3339Nano)}
	}
	return m
}

// least is the least number of faults that a cell must have seen.
func (s *story) least(o op, k kind) int {
	arms := k == refused || k == serverGone // counts schedules, not what they fire
	switch {
	case o == firing && (s.plain && arms || s.unfired && !arms):
		return 0
	case slices.Contains(s.none, o):
		return 0
	case o == commit:
		return 2
	}
	return 1
}

func limit(header, n string) map[string]string { return map[string]string{header: n} }

// inTurn publishes the calls and waits for the outcome of each before the next.
func inTurn(names ...string) func(*play) {
	return func(p *play) {
		for _, n := range names {
			p.publish(n)
			p.outcome(n, 0)
		}
	}
}

// doubt is what a write that must not be repeated may end as.
var doubt = []schemas.Status{schemas.UnknownOutcome, schemas.Failed}

func stories() []*story {
	return slices.Concat(plain(), exhausted(), operated(), repeated(), edited())
}

// plain are calls that nobody but the dispatcher has to do with.
func plain() []*story {
	return []*story{{
		name: "success", execs: 2, none: []op{firing},
		tools: map[string][]step{"pay.keyed": {fine}, "pay.never": {fine}},
		calls: []call{{name: "keyed", tool: "pay.keyed", want: schemas.Succeeded}, {name: "never", tool: "pay.never", want: schemas.Succeeded, may: doubt}},
		steps: func(p *play) { p.publish("keyed"); p.publish("never") },
	}, {
		name: "retry", execs: 2,
		tools: map[string][]step{"pay.keyed": {busy(time.Second), fine}},
		calls: []call{{name: "k", tool: "pay.keyed", want: schemas.Succeeded}},
		steps: inTurn("k"),
	}, {
		name: "unknown", execs: 1, none: []op{firing},
		tools: map[string][]step{"pay.never": {silent}},
		calls: []call{{name: "k", tool: "pay.never", want: schemas.UnknownOutcome, may: doubt}},
		steps: inTurn("k"),
	}, {
		name: "reconcile", execs: 2, none: []op{firing},
		tools: map[string][]step{"pay.asked": {silent}, "look.asked": {{answer: map[string]any{"outcome": "happened", "result": 1}}}},
		calls: []call{{name: "k", tool: "pay.asked", want: schemas.Succeeded, may: doubt}},
		steps: inTurn("k"),
	}, {
		name: "repair", execs: 1, none: []op{firing},
		tools: map[string][]step{"look.form": {fine}},
		calls: []call{{name: "wrong", tool: "look.form", want: schemas.Repair}, {name: "right", tool: "look.form", body: `{"city":"Rome"}`, want: schemas.Succeeded}},
		steps: inTurn("wrong", "right"),
	}, {
		name: "request", execs: 2,
		tools: map[string][]step{"pay.keyed": {busy(time.Second), fine}},
		calls: []call{{name: "k", tool: "pay.keyed", want: schemas.Succeeded}},
		steps: func(p *play) {
			o := p.request("k")
			if stored := p.outcome("k", 0); stored.ID != o.ID {
				p.t.Errorf("the reply is outcome %s, stored is %s", o.ID, stored.ID)
			}
			if again := p.request("k"); again.ID != o.ID || !again.Repeated {
				p.t.Errorf("asked again: %+v", again)
			}
		},
	}}
}

// exhausted use up each dimension.
func exhausted() []*story {
	return []*story{{
		name: "call-attempts", execs: 4,
		tools: map[string][]step{"look.up": {busy(time.Second)}},
		calls: []call{{name: "k", tool: "look.up", want: schemas.Exhausted}},
		steps: inTurn("k"),
	}, {
		name: "run-attempts", execs: 2,
		tools: map[string][]step{"look.up": {busy(time.Second)}},
		calls: []call{
			{name: "k", tool: "look.up", header: limit(schemas.HeaderRunAttempts, "2"), want: schemas.Exhausted},
			{name: "next", tool: "look.up", run: run + "/child", want: schemas.Exhausted},
		},
		steps: inTurn("k", "next"),
	}, {
		name: "side-effects", execs: 2, none: []op{firing},
		tools: map[string][]step{"pay.keyed": {fine}, "look.up": {fine}},
		calls: []call{
			{name: "k", tool: "pay.keyed", header: limit(schemas.HeaderRunSideEffects, "1"), want: schemas.Succeeded, may: []schemas.Status{schemas.Exhausted}},
			{name: "next", tool: "pay.keyed", run: run + "/child", want: schemas.Exhausted},
			{name: "read", tool: "look.up", want: schemas.Succeeded},
		},
		steps: inTurn("k", "next", "read"),
	}, {
		name: "elapsed", execs: 2, late: true,
		tools: map[string][]step{"look.up": {busy(4 * time.Second)}},
		calls: []call{{name: "k", tool: "look.up", runFor: 12 * time.Second, want: schemas.Exhausted}},
		steps: inTurn("k"),
	}}
}

// operated need an operator.
func operated() []*story {
	return []*story{{
		name: "replay", execs: 2, plain: true, replayed: true, audits: map[string]int{"replay": 1},
		tools: map[string][]step{"look.up": {broken, fine}},
		calls: []call{{name: "k", tool: "look.up", generation: 1, first: []schemas.Status{schemas.Failed}, want: schemas.Succeeded}},
		steps: func(p *play) { inTurn("k")(p); p.replay("k") },
	}, {
		name: "grant", execs: 2, plain: true, audits: map[string]int{"grant": 1, "replay": 1},
		tools: map[string][]step{"look.up": {fine}},
		calls: []call{
			{name: "spends", tool: "look.up", header: limit(schemas.HeaderRunAttempts, "1"), want: schemas.Succeeded, may: []schemas.Status{schemas.Exhausted}},
			{name: "k", tool: "look.up", generation: 1, first: []schemas.Status{schemas.Exhausted}, want: schemas.Succeeded, may: []schemas.Status{schemas.Exhausted}},
		},
		steps: func(p *play) { inTurn("spends", "k")(p); p.grant(1); p.replay("k") },
	}, {
		name: "resolve", execs: 1, audits: map[string]int{"resolve": 1}, none: []op{firing},
		tools: map[string][]step{"pay.never": {silent}},
		calls: []call{{name: "k", tool: "pay.never", generation: 1, first: doubt, want: schemas.Succeeded}},
		steps: func(p *play) { inTurn("k")(p); p.resolve("k") },
	}, {
		name: "cancel", execs: 1, unfired: true, audits: map[string]int{"cancel": 1},
		tools: map[string][]step{"look.up": {busy(8 * time.Second)}},
		calls: []call{{name: "k", tool: "look.up", want: schemas.Cancelled}, {name: "next", tool: "look.up", want: schemas.Cancelled}},
		steps: func(p *play) { p.publish("k"); p.waiting("k"); p.cancel(); inTurn("next")(p) },
	}}
}

// repeated are asked twice, or outlive their process.
func repeated() []*story {
	return []*story{{
		name: "resend-waiting", execs: 2,
		tools: map[string][]step{"pay.keyed": {busy(3 * time.Second), fine}},
		calls: []call{{name: "k", tool: "pay.keyed", want: schemas.Succeeded}},
		steps: func(p *play) { p.publish("k"); p.waiting("k"); p.publish("k") },
	}, {
		name: "resend-running", execs: 1, none: []op{firing},
		tools: map[string][]step{"pay.never": {{work: 2 * time.Second}}},
		calls: []call{{name: "k", tool: "pay.never", want: schemas.Succeeded, may: doubt}},
		steps: func(p *play) { p.publish("k"); p.pass(time.Second); p.publish("k") },
	}, {
		name: "shutdown", execs: 3,
		tools: map[string][]step{"pay.never": {{work: 2 * time.Second}}, "look.up": {busy(5 * time.Second), fine}},
		calls: []call{{name: "runs", tool: "pay.never", want: schemas.Succeeded, may: doubt}, {name: "waits", tool: "look.up", want: schemas.Succeeded}},
		steps: func(p *play) {
			p.publish("waits")
			p.waiting("waits")
			p.publish("runs")
			p.pass(500 * time.Millisecond)
			p.stop()
			p.start()
		},
	}}
}

// replay replays the letter of a call's first generation.
func (p *play) replay(name string) {
	p.t.Helper()
	id := worldtest.CallID(p.s.msg(name)) + ".0"
	p.decide("replay", func(ctx context.Context) error {
		return p.w.Ctl.Ask(ctx, control.VerbReplay, control.ReplayQuery{ID: id, ReplayOptions: deadletter.ReplayOptions{Why: "matrix"}}, &control.Done{})
	}, func() bool { d := p.show(name); return d != nil && d.Generation > 0 })
}

// resolve says that what nobody knows did happen.
func (p *play) resolve(name string) {
	p.t.Helper()
	id := worldtest.CallID(p.s.msg(name)) + ".0"
	p.decide("resolve", func(ctx context.Context) error {
		return p.w.Ctl.Ask(ctx, control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.Happened, Why: "matrix"}}, &control.Done{})
	}, func() bool { d := p.show(name); return d != nil && d.Generation > 0 })
}

// grant gives the run so many attempts more.
func (p *play) grant(n int) {
	p.t.Helper()
	p.decide("grant", func(ctx context.Context) error {
		return p.w.Ctl.Ask(ctx, control.VerbRunGrant, control.GrantQuery{Run: run, Attempts: n, Why: "matrix"}, &control.RunDetail{})
	}, func() bool { return len(p.account(run).Grants) > 0 })
}

// cancel cancels the run.
func (p *play) cancel() {
	p.t.Helper()
	p.decide("cancel", func(ctx context.Context) error {
		_, err := p.w.Ctl.Cancel(ctx, "default", dispatcher.CancelRequest{Run: run, Reason: "matrix"})
		return err
	}, func() bool { return p.account(run).Cancelled })
}

// account is what the ledger knows of an account, nothing while nobody answers.
func (p *play) account(path string) budget.Account {
	var d control.RunDetail
	if p.ask(control.VerbRunShow, control.RunQuery{Run: path}, &d) != nil {
		return budget.Account{}
	}
	return d.Accounts[path]
}
