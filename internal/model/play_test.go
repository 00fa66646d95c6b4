package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tollgate/budget"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// game plays one sequence in a house and keeps the model beside it.
type game struct {
	*model
	h *house

	asked   sync.WaitGroup
	mu      sync.Mutex // guards replies
	replies []reply
}

// reply is what came of a request.
type reply struct {
	call     *call
	o        *schemas.Outcome
	err      error
	conflict bool
}

// play returns what was wrong, with the operation that showed it.
func play(h *house, root string, p plan) []string {
	g := &game{model: newModel(root), h: h}
	for i, o := range p {
		g.do(o)
		if g.observe(); len(g.problems) > 0 {
			return append(g.problems, fmt.Sprintf("seen after operation %d: %s", i, o))
		}
	}
	g.finish()
	return g.problems
}

func (g *game) do(o op) {
	switch o.kind {
	case publish:
		g.publish(o)
	case resend, conflict:
		g.again(o)
	case wait:
		time.Sleep(o.wait)
	case crash:
		g.crash(o.wait)
	case restart:
		g.h.Stop()
		time.Sleep(o.wait)
		g.h.start()
	case outage:
		g.outage(o.wait)
	case cancelRun, cancelOne:
		g.cancel(o)
	case grant:
		g.grant(o)
	default:
		g.verdict(o)
	}
}

func (g *game) path(o op) string { return g.root + below[o.below] }

func (g *game) publish(o op) {
	named := o.attempts >= 0 || o.effects >= 0
	if named {
		g.taken() // which of two that come together is first, and so finds the new limits, is open
	}
	n := len(g.calls)
	c := &call{key: fmt.Sprintf("k%d", n), path: g.path(o), tool: tools[o.tool], jobs: o.jobs, bad: o.bad, attempts: o.attempts, effects: o.effects,
		body: fmt.Appendf(nil, `{"n": %d}`, n), outcomes: map[int]*schemas.Outcome{}, letters: map[int]*letter{}, maybe: o.ask}
	if o.bad {
		c.body = fmt.Appendf(nil, `{"n": %d, "bad": true}`, n)
	}
	m := c.message(o.deadline)
	c.id = worldtest.CallID(m)
	g.h.script(c.id, o.steps)
	g.add(c)
	c.open(0, time.Now(), o.deadline)
	if o.fuse > 0 {
		g.h.fuse.arm(o.fuse, o.late)
	}
	g.send(c, m, o.ask, false)
	if named {
		g.taken()
	}
	if o.fuse > 0 {
		for end := time.Now().Add(3 * time.Second); !g.h.fuse.broken.Load() && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		g.crash(0)
	}
}

// taken waits until everything that was sent has been looked at.
func (g *game) taken() {
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		g.observe()
		sent := func(c *call) bool { return c.admitted || c.maybe && g.replied(c) }
		if !slices.ContainsFunc(g.calls, func(c *call) bool { return !sent(c) }) || time.Now().After(end) {
			return
		}
	}
}

func (g *game) replied(c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.replies, func(r reply) bool { return r.call == c })
}

func (c *call) message(deadline time.Duration) worldtest.Msg {
	m := worldtest.Msg{Tool: c.tool.name, Run: c.path, Key: c.key, Body: string(c.body), Deadline: deadline, Header: map[string]string{}}
	if c.jobs {
		m.Lane = schemas.Jobs
	}
	if c.attempts >= 0 {
		m.Header[schemas.HeaderRunAttempts] = fmt.Sprint(c.attempts)
	}
	if c.effects >= 0 {
		m.Header[schemas.HeaderRunSideEffects] = fmt.Sprint(c.effects)
	}
	return m
}

func (g *game) send(c *call, m worldtest.Msg, ask, conflict bool) {
	if !ask {
		g.h.Publish(m)
		return
	}
	n := m.Build()
	n.Subject = strings.Replace(n.Subject, ".calls.", ".do.", 1)
	g.asked.Go(func() {
		r := reply{call: c, conflict: conflict}
		ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
		defer stop()
		answer, err := g.h.NC.RequestMsgWithContext(ctx, n)
		if r.err = err; err == nil {
			r.o = &schemas.Outcome{}
			r.err = json.Unmarshal(answer.Data, r.o)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.replies = append(g.replies, r)
	})
}

// again sends a call that was admitted a second time, as it was or with other arguments.
func (g *game) again(o op) {
	known := slices.DeleteFunc(slices.Clone(g.calls), func(c *call) bool { return !c.admitted })
	if len(known) == 0 {
		return
	}
	c := known[len(known)-1-o.which%len(known)]
	m := c.message(c.window)
	ask := o.ask && !c.jobs
	if o.kind == conflict {
		m.Body = `{"n": "another"}`
		if c.jobs {
			c.refusals++
		}
	} else if last := c.outcomes[c.generation]; !c.pending && last.Status == schemas.Unavailable {
		c.open(c.generation+1, time.Now(), c.window)
		c.ambiguous = false
	}
	g.send(c, m, ask, o.kind == conflict)
}

// crash takes the process away. What was being executed never gave an answer.
func (g *game) crash(down time.Duration) {
	still()
	g.see()
	for _, c := range g.calls {
		if c.running {
			g.ends(c.id, silent, time.Now())
		}
	}
	g.h.kill(down)
}

// outage takes the server away. The dispatcher's connection goes first: a server that
// stops while it delivers to a client tries again and again without a pause, and
// virtual time stands still meanwhile.
func (g *game) outage(down time.Duration) {
	g.h.fuse.lose()
	still()
	g.h.Node.Restart(g.h.T, down)
	g.h.fuse.find()
	time.Sleep(2 * time.Second) // clients come back
}

func (g *game) cancel(o op) {
	q := dispatcher.CancelRequest{Run: g.path(o), Reason: "the plan says so"}
	if o.kind == cancelOne {
		if len(g.calls) == 0 {
			return
		}
		c := g.calls[len(g.calls)-1-o.which%len(g.calls)]
		q = dispatcher.CancelRequest{Call: c.id, Reason: "the plan says so"}
		if c.admitted && c.pending {
			c.cancelled = true
			g.audits["cancel"]++
		}
	} else {
		g.run.cancel(time.Now(), q.Run)
		g.audits["cancel"]++
	}
	if _, err := g.h.Ctl.Cancel(context.Background(), "default", q); err != nil {
		g.wrong("cancel %+v: %v", q, err)
	}
}

func (g *game) grant(o op) {
	path := g.path(o)
	_, known := g.run.accounts[path]
	var d control.RunDetail
	err := g.h.Ctl.Ask(context.Background(), control.VerbRunGrant, control.GrantQuery{Run: path, Attempts: o.attempts, SideEffects: o.effects, Why: "plan"}, &d)
	if known != (err == nil) {
		g.wrong("grant to %s, known %t: %v", path, known, err)
	}
	if err == nil {
		g.raise([]string{path}, o)
		g.audits["grant"]++
	}
}

func (g *game) raise(paths []string, o op) {
	g.run.change(time.Now(), paths, func(a *account) {
		a.attemptsLimit += o.attempts
		a.effectsLimit += o.effects
	})
}

// verdict is what an operator does with a dead letter.
func (g *game) verdict(o op) {
	var dead []*call
	for _, c := range g.calls {
		if len(c.letters) > 0 {
			dead = append(dead, c)
		}
	}
	if len(dead) == 0 {
		return
	}
	c := dead[len(dead)-1-o.which%len(dead)]
	generation := c.generation
	for c.letters[generation] == nil { // the newest letter, which may be of a generation before
		generation--
	}
	l := c.letters[generation]
	live := generation == c.generation && !c.pending && !l.discarded
	id := fmt.Sprintf("%s.%d", c.id, generation)
	var err error
	may := live
	action := "resolve"
	ask := func(verb string, q any) { err = g.h.Ctl.Ask(context.Background(), verb, q, &control.Done{}) }
	switch o.kind {
	case replay:
		action = "replay"
		granted := g.replayable(c, o, live, &may)
		ask(control.VerbReplay, control.ReplayQuery{ID: id, ReplayOptions: deadletter.ReplayOptions{
			IncludeUnknown: o.unknown, Grant: budget.Grant{Attempts: o.attempts, SideEffects: o.effects}, Why: "plan"}})
		if err == nil {
			g.raise(granted, o)
			c.open(c.generation+1, time.Now(), c.window)
			c.ambiguous = c.ambiguous && !c.tool.never
		}
	case happened:
		ask(control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.Happened, Result: json.RawMessage(`"paid"`)}})
		if err == nil {
			c.generation++
			c.ambiguous = false
			still()
			g.resolved(c)
		}
	case didNotHappen:
		ask(control.VerbResolve, control.ResolveQuery{ID: id, ResolveOptions: deadletter.ResolveOptions{Verdict: deadletter.DidNotHappen}})
		if err == nil {
			c.ambiguous = false
		}
	case discard:
		action = "discard"
		ask(control.VerbDiscard, control.LetterQuery{ID: id, Why: "plan"})
		l.discarded = l.discarded || err == nil
	}
	if may != (err == nil) {
		g.wrong("I10: %s of letter %s (%s of %s), which may be: %t: %v", o, id, l.reason, c, may, err)
	}
	if err == nil {
		g.audits[action]++
	}
}

// replayable says whether the contract lets a letter be replayed now, and which
// accounts a grant raises.
func (g *game) replayable(c *call, o op, live bool, may *bool) (granted []string) {
	o2 := c.outcomes[c.generation]
	unknown := o2 != nil && o2.Status == schemas.UnknownOutcome && c.ambiguous && !o.unknown
	after := map[string]account{}
	late := time.Now().Add(timeout).After(g.run.deadline())
	for _, p := range up(c.path) {
		a := g.run.accounts[p]
		if (o.attempts > 0 || o.effects > 0) && (late || a.attempts >= a.attemptsLimit || c.tool.write && a.effects >= a.effectsLimit) {
			granted = append(granted, p)
			a.attemptsLimit += o.attempts
			a.effectsLimit += o.effects
		}
		after[p] = a
	}
	*may = live && !unknown && !cancelled(g.run.accounts, c.path) && spent(after, c.path, c.tool.write) == "" && !late
	return granted
}

// resolved is the generation that an operator's word made.
func (g *game) resolved(c *call) {
	o := g.h.Stored(c.message(0))
	if o == nil || o.Generation != c.generation || o.Status != schemas.Succeeded || string(o.Structured) != `"paid"` {
		g.wrong("%s was said to have happened, and its outcome is %+v", c, o)
		return
	}
	g.over(c, o)
}
