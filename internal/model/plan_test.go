package model

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// step is what a tool does with one execution.
type step int

const (
	succeeds  step = iota
	busy           // may clear by itself
	waits          // says when to come back: in 2 s
	waitsLong      // in 15 s, which is longer than a call sits out
	refuses        // for the model to read
	stops          // a stop reason, though retryable
	strange        // an error that nobody declared
	silent         // acts, and does not answer before its time is up
	panics
)

func (s step) String() string {
	return [...]string{"ok", "busy", "wait2s", "wait15s", "refuse", "stop", "strange", "silent", "panic"}[s]
}

// kind is what happens next in a sequence.
type kind int

const (
	publish   kind = iota
	resend         // the same key and arguments
	conflict       // the same key, other arguments
	wait           // virtual time passes
	crash          // kill -9, and a new process
	restart        // SIGTERM, and a new process
	outage         // the server goes away and comes back
	cancelRun      // a run path
	cancelOne      // a call
	grant
	replay
	happened // an operator's verdict on a dead letter
	didNotHappen
	discard
)

func (k kind) String() string {
	return [...]string{"publish", "resend", "conflict", "wait", "crash", "restart", "outage", "cancel-run", "cancel-call", "grant", "replay", "happened", "did-not-happen", "discard"}[k]
}

// tools are served, and what they are.
var tools = []tool{{name: "look.up"}, {name: "pay.keyed", write: true}, {name: "pay.never", write: true, never: true}}

type tool struct {
	name         string
	write, never bool
}

// below are the run paths under a sequence's root.
var below = []string{"", "/a", "/b", "/a/c"}

// op is one thing that happens. What a kind does not use is zero.
type op struct {
	kind     kind
	tool     int
	below    int
	jobs     bool // lane
	ask      bool // by request and reply
	bad      bool // arguments that violate the schema
	steps    []step
	deadline time.Duration
	attempts int // limits that the message names for its run; -1: none
	effects  int
	which    int // call or letter, counted from the last
	wait     time.Duration
	fuse     int  // crash at the n-th write to the server after the publish; 0: no crash
	late     bool // the server gets the n-th write, the reply is lost
	unknown  bool // replay: even where nobody knows what happened
}

func (o op) String() string {
	s := o.kind.String()
	switch o.kind {
	case publish:
		s += fmt.Sprintf(" %s below=%q jobs=%t ask=%t bad=%t steps=%v deadline=%s", tools[o.tool].name, below[o.below], o.jobs, o.ask, o.bad, o.steps, o.deadline)
		if o.attempts >= 0 || o.effects >= 0 {
			s += fmt.Sprintf(" limits=%d/%d", o.attempts, o.effects)
		}
		if o.fuse > 0 {
			s += fmt.Sprintf(" crash at write %d late=%t", o.fuse, o.late)
		}
	case resend, conflict:
		s += fmt.Sprintf(" which=%d ask=%t", o.which, o.ask)
	case wait, crash, restart, outage:
		s += " " + o.wait.String()
	case cancelRun:
		s += fmt.Sprintf(" below=%q", below[o.below])
	case grant:
		s += fmt.Sprintf(" below=%q %d/%d", below[o.below], o.attempts, o.effects)
	case replay:
		s += fmt.Sprintf(" which=%d unknown=%t grant=%d/%d", o.which, o.unknown, o.attempts, o.effects)
	default:
		s += fmt.Sprintf(" which=%d", o.which)
	}
	return s
}

type plan []op

func (p plan) String() string {
	var b strings.Builder
	for i, o := range p {
		fmt.Fprintf(&b, "%3d  %s\n", i, o)
	}
	return b.String()
}

// often says how likely each kind is.
var often = []kind{
	publish, publish, publish, publish, publish, publish, publish, resend, resend, conflict, wait, wait, wait, crash, restart, outage,
	cancelRun, cancelOne, grant, replay, replay, replay, happened, didNotHappen, discard,
}

var steps = []step{succeeds, busy, busy, waits, waitsLong, refuses, stops, strange, silent, silent, panics}

var waitsOf = map[kind][]time.Duration{
	wait:    {100 * time.Millisecond, time.Second, 4 * time.Second, 15 * time.Second, 40 * time.Second},
	crash:   {0, 0, 2 * time.Second, 10 * time.Second},
	restart: {0, 0, 2 * time.Second, 10 * time.Second},
	outage:  {100 * time.Millisecond, 3 * time.Second},
}

func pick[T any](t *rapid.T, what string, of ...T) T {
	return of[rapid.IntRange(0, len(of)-1).Draw(t, what)]
}

func drawOp(t *rapid.T) op {
	o := op{kind: pick(t, "kind", often...), attempts: -1, effects: -1}
	switch o.kind {
	case publish:
		drawPublish(t, &o)
	case resend, conflict:
		o.which, o.ask = rapid.IntRange(0, 3).Draw(t, "which"), rapid.Bool().Draw(t, "ask")
	case wait, crash, restart, outage:
		o.wait = pick(t, "wait", waitsOf[o.kind]...)
	case cancelRun:
		o.below = rapid.IntRange(0, len(below)-1).Draw(t, "below")
	case grant:
		o.below = rapid.IntRange(0, len(below)-1).Draw(t, "below")
		o.attempts, o.effects = rapid.IntRange(1, 3).Draw(t, "attempts"), rapid.IntRange(0, 2).Draw(t, "effects")
	case replay:
		o.which, o.unknown = rapid.IntRange(0, 2).Draw(t, "which"), rapid.Bool().Draw(t, "unknown")
		if o.attempts, o.effects = 0, 0; rapid.Bool().Draw(t, "granted") {
			o.attempts, o.effects = 2, 2
		}
	default:
		o.which = rapid.IntRange(0, 2).Draw(t, "which")
	}
	return o
}

func drawPublish(t *rapid.T, o *op) {
	o.tool = rapid.IntRange(0, len(tools)-1).Draw(t, "tool")
	o.below = rapid.IntRange(0, len(below)-1).Draw(t, "below")
	o.steps = rapid.SliceOfN(rapid.SampledFrom(steps), 0, 5).Draw(t, "steps")
	o.deadline = pick(t, "deadline", 50*time.Second, 20*time.Second, 8*time.Second)
	o.bad = pick(t, "bad", false, false, false, false, false, false, false, true)
	switch pick(t, "how", "call", "job", "ask", "job", "call") {
	case "job":
		o.jobs = true
	case "ask":
		o.ask = true
		return
	}
	switch pick(t, "also", "", "", "", "limits", "limits", "fuse") {
	case "limits":
		o.attempts, o.effects = rapid.IntRange(-1, 6).Draw(t, "attempts"), rapid.IntRange(-1, 3).Draw(t, "effects")
	case "fuse":
		o.fuse, o.late = rapid.IntRange(1, 8).Draw(t, "fuse"), rapid.Bool().Draw(t, "late")
	}
}

// plans draws whole sequences.
var plans = rapid.Custom(func(t *rapid.T) plan {
	return rapid.SliceOfN(rapid.Custom(drawOp), 2, 16).Draw(t, "ops")
})
