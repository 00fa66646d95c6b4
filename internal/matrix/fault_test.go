package matrix

import (
	"bytes"
	"errors"
	"sync/atomic"

	"tollgate/internal/natstest"
)

// op is what is counted.
type op string

// The operations.
const (
	commit  op = "commit"  // of the ledger
	publish op = "publish" // a write of the dispatcher's connection with a schedule, wake, letter, edited call, outcome or audit entry
	ack     op = "ack"     // such a write with an acknowledgement or a message handed back
	tool    op = "tool"    // a call of a tool's function
	firing  op = "firing"  // a retry's schedule comes due
)

var ops = []op{commit, publish, ack, tool, firing}

// kind is what goes wrong at it.
type kind string

// The kinds.
const (
	refused    kind = "refused"     // it fails: no commit; the connection breaks before the write; a busy tool; no schedule any more
	lost       kind = "lost"        // it succeeds and looks as if it had not: the answer, or the fired copy, is lost
	diesBefore kind = "dies-before" // the process is gone just before it
	diesAfter  kind = "dies-after"  // and just after it
	serverGone kind = "server-gone" // the server is away for two seconds from then on
)

var kinds = []kind{refused, lost, diesBefore, diesAfter, serverGone}

// setup is how server and process belong together.
type setup string

// The setups.
const (
	apart    setup = "apart"    // a server with default settings, which outlives the process
	embedded setup = "embedded" // the settings that `tollgate bench` measures: synced always, results persisted a moment later; the server dies with the process
)

// exists reports whether a cell of the matrix means anything.
func exists(o op, k kind) bool {
	return o != firing || k != diesAfter // a process that dies with the copy in hand dies at the commit that follows
}

// disturbs reports whether a fault may cost an attempt or leave an effect in doubt.
// Every other one must leave no trace in the outcome, nor in the budget.
func disturbs(o op, k kind) bool {
	switch {
	case k == diesBefore, k == diesAfter:
		return true
	case o == tool:
		return k != serverGone
	}
	return o == commit && k == lost
}

// fault happens at the n-th operation of its kind, once.
type fault struct {
	setup setup
	op    op
	kind  kind
	n     int64

	seen  atomic.Int64
	armed atomic.Bool // set once the first process serves
	todo  chan errand // what is left to the test's own goroutine
}

// errand is what only the test's own goroutine may do to the world.
type errand uint8

const (
	restart    errand = iota + 1 // the server, with a pause between
	unschedule                   // every schedule
)

func newFault(s setup, o op, k kind, n int) *fault {
	return &fault{setup: s, op: o, kind: k, n: int64(n), todo: make(chan errand, 4)}
}

func (f *fault) fired() bool { return f.seen.Load() >= f.n }

// at counts an operation and returns the kind of fault that happens at it, "" for none.
func (f *fault) at(o op) kind {
	if !f.armed.Load() || f.op != o || f.seen.Add(1) != f.n {
		return ""
	}
	return f.kind
}

// Errors of what is made to fail.
var (
	errRefused = errors.New("matrix: refused")
	errLost    = errors.New("matrix: done, and reported as failed")
	errDead    = errors.New("matrix: this process is dead")
)

// writes reports whether bytes on their way to the server hold the operation.
func writes(o op, b []byte) bool {
	var prefixes []string
	switch o {
	case publish:
		prefixes = []string{"tollgate.sched.", "tollgate.retry.", "tollgate.dlq.", "tollgate.results.", "tollgate.audit.", "tollgate.calls."}
	case ack:
		prefixes = []string{"$JS.ACK."}
	case firing:
		prefixes = []string{"tollgate.sched."}
	}
	for _, p := range prefixes {
		if natstest.Publishes(p)(b) {
			return true
		}
	}
	return false
}

// fires reports whether bytes from the server deliver a retry.
func fires(b []byte) bool { return bytes.Contains(b, []byte("MSG tollgate.retry.")) }
