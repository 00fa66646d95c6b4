package dedupe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tollgate/budget"
)

// ErrUnavailable is wrapped by every ledger error after which nothing was
// committed: nothing may be executed on the strength of it.
var ErrUnavailable = errors.New("ledger cannot commit")

// ErrNotFound is returned by look-ups of calls and runs the ledger does not hold.
var ErrNotFound = errors.New("not in the ledger")

// Ref addresses one call and the run that pays for it. When the call has a
// record, the record's own payer counts, not Root. An empty Call addresses the
// run alone.
type Ref struct {
	Tenant string
	Root   string
	Call   string
}

// View is what a mutation sees: facts as fresh as the commit they go into.
// Record and Run are copies that the mutation may change and return.
type View struct {
	Record      *Record     // nil: no such call
	Run         *budget.Run // nil: no such run
	Epoch       uint64      // of the process; claims carry it
	Unpublished bool        // the record's slot or result has not been published yet
	Horizon     time.Time   // of a recovered ledger: keys unknown to it and older than this may have run
}

// Audit is one operator decision, to be published by number like a result.
type Audit struct {
	Number  uint64    `json:"n"`
	At      time.Time `json:"at"`
	Tenant  string    `json:"tenant"`
	Action  string    `json:"action"`
	Target  string    `json:"target"`
	By      string    `json:"by"`
	Why     string    `json:"why,omitempty"`
	Allowed bool      `json:"allowed"`
	Detail  string    `json:"detail,omitempty"`
	Before  string    `json:"before,omitempty"` // what was decided about stood like this
	After   string    `json:"after,omitempty"`  // and stands like this now
}

// Change is what a mutation wants committed. A nil part stays as it is.
type Change struct {
	Record *Record
	Run    *budget.Run
	Result bool    // publish Record's outcome: the ledger numbers it
	Audit  []Audit // publish these: the ledger numbers them
	Mark   *ReplayMark
}

// Mutation decides, inside the commit, what changes. It must be pure: it may be
// called again when a commit is retried.
type Mutation func(View) Change

// Receipt says what a committed change now owes the outside.
type Receipt struct {
	Result uint64  // number of the result, 0 for none
	Audit  []Audit // with their numbers
}

// Pause says why a tool is not served.
type Pause struct {
	At  time.Time `json:"at"`
	By  string    `json:"by"`
	Why string    `json:"why,omitempty"`
}

// String is how the tool stands, in words for the audit. A nil pause is none.
func (p *Pause) String() string {
	switch {
	case p == nil:
		return "served"
	case p.Why == "":
		return "paused by " + p.By
	}
	return "paused by " + p.By + ": " + p.Why
}

// Publication is something owed that is now stored by the server: the slot of a
// record, or a result or audit entry by its number.
type Publication struct {
	Call       string // of a slot
	Token      uint64 // the slot belongs to this token and generation; a newer one stays owed
	Generation int
	Slot       Slot
	Result     uint64
	Audit      uint64
}

// LetterID is the ID of a dead letter: the call and its generation.
func LetterID(call string, generation int) string {
	return call + "." + strconv.Itoa(generation)
}

// ParseLetterID splits a dead letter's ID.
func ParseLetterID(id string) (call string, generation int, err error) {
	call, g, ok := strings.Cut(id, ".")
	generation, convErr := strconv.Atoi(g)
	if !ok || convErr != nil || generation < 0 || !ValidCallID(call) || strconv.Itoa(generation) != g { // "+1" would be a second name of one letter
		return "", 0, fmt.Errorf("%q is not a dead-letter ID (want <call>.<generation>)", id)
	}
	return call, generation, nil
}
