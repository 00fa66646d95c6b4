package dedupe

import (
	"errors"
	"regexp"
	"time"

	"tollgate/budget"
	"tollgate/schemas"
)

// ErrExists is returned when a bulk replay is given a name that another one has.
var ErrExists = errors.New("exists already")

// ReplayState is where a bulk replay stands. The empty state is invalid.
type ReplayState string

// The states of a bulk replay.
const (
	ReplayRunning   ReplayState = "running"   // letters are replayed, or their outcomes awaited
	ReplayPaused    ReplayState = "paused"    // by an operator
	ReplayStopped   ReplayState = "stopped"   // by its own rule: too many died again
	ReplayCancelled ReplayState = "cancelled" // by an operator, for good
	ReplayDone      ReplayState = "done"      // each letter was replayed or skipped, and has its outcome
)

// Terminal reports whether nothing more is replayed, ever.
func (s ReplayState) Terminal() bool { return s == ReplayCancelled || s == ReplayDone }

// ReplayEvent is what changes the state of a bulk replay.
type ReplayEvent string

// The events.
const (
	ReplayPause  ReplayEvent = "pause"
	ReplayResume ReplayEvent = "resume"
	ReplayCancel ReplayEvent = "cancel"
	ReplayStop   ReplayEvent = "stop"
	ReplayFinish ReplayEvent = "finish"
)

var replayTransitions = map[ReplayState]map[ReplayEvent]ReplayState{
	ReplayRunning: {ReplayPause: ReplayPaused, ReplayCancel: ReplayCancelled, ReplayStop: ReplayStopped, ReplayFinish: ReplayDone},
	ReplayPaused:  {ReplayResume: ReplayRunning, ReplayCancel: ReplayCancelled},
	ReplayStopped: {ReplayResume: ReplayRunning, ReplayCancel: ReplayCancelled},
}

// Next returns the state after e, and whether e is allowed in s.
func (s ReplayState) Next(e ReplayEvent) (ReplayState, bool) {
	n, ok := replayTransitions[s][e]
	return n, ok
}

// Replay is one bulk replay: what it is to do, and how far it is. Its letters are its
// items; Matched = Left + Replayed + all of Skipped, at every instant.
type Replay struct {
	Name    string      `json:"name"`
	State   ReplayState `json:"state"`
	Scope   string      `json:"scope"` // the filter in words, or that letters were named
	By      string      `json:"by"`
	Why     string      `json:"why,omitempty"`
	Created time.Time   `json:"created"`
	Changed time.Time   `json:"changed"`        // the last change of state
	Ended   time.Time   `json:"ended,omitzero"` // when it became terminal
	Reason  string      `json:"reason,omitempty"`
	Trouble string      `json:"trouble,omitempty"` // what keeps it from going on, for now

	Rate      float64 `json:"rate"`           // letters a second, at most
	InFlight  int     `json:"in_flight_most"` // replayed letters without an outcome, at most
	Canary    int     `json:"canary,omitempty"`
	StopAbove float64 `json:"stop_above"` // share of the outcomes that died again; 1 never stops

	Grant          budget.Grant  `json:"grant,omitzero"`
	NewRun         string        `json:"new_run,omitempty"`
	Window         time.Duration `json:"window,omitempty"`
	IncludeUnknown bool          `json:"include_unknown,omitempty"`

	Matched      int            `json:"matched"`
	Skipped      map[string]int `json:"skipped,omitempty"` // by why
	Left         int            `json:"left"`
	Tally        ReplayTally    `json:"counts"`
	Judged       ReplayTally    `json:"judged,omitzero"` // the counts of the last resume: outcomes before it are forgiven
	CanaryPassed bool           `json:"canary_passed,omitempty"`
}

// ReplayTally counts the letters of a bulk replay that were replayed, and their outcomes.
type ReplayTally struct {
	Replayed  int `json:"replayed"`
	Succeeded int `json:"succeeded"`
	DiedAgain int `json:"died_again"`
	Forgotten int `json:"forgotten,omitempty"` // the ledger's memory of it ended before it was looked at
}

// Open is how many replayed letters have no outcome yet.
func (t ReplayTally) Open() int { return t.Replayed - t.Succeeded - t.DiedAgain - t.Forgotten }

// SkippedCount is how many letters were left out.
func (r *Replay) SkippedCount() int {
	n := 0
	for _, of := range r.Skipped {
		n += of
	}
	return n
}

// ReplayItemState is what became of one letter of a bulk replay.
type ReplayItemState string

// The states of an item.
const (
	ItemLeft     ReplayItemState = "left"
	ItemReplayed ReplayItemState = "replayed"
	ItemSkipped  ReplayItemState = "skipped"
)

// ReplayItem is one letter of a bulk replay, by its place in the frozen set.
type ReplayItem struct {
	N        int             `json:"n"`
	Letter   string          `json:"id"`
	Sequence uint64          `json:"seq,omitempty"` // in the dead-letter stream
	State    ReplayItemState `json:"state"`
	Why      string          `json:"why,omitempty"` // it was skipped
	Status   schemas.Status  `json:"status,omitempty"`
	At       time.Time       `json:"at,omitzero"` // when it was replayed
}

// ReplayMark notes an item of a bulk replay in the commit of another change: the
// letter's next generation and the note that it was this replay that opened it are
// durable together or not at all.
type ReplayMark struct {
	Replay string
	Item   ReplayItem
}

// ReplayChange is what a mutation of a bulk replay wants committed.
type ReplayChange struct {
	Replay *Replay // nil: as it is
	Items  []ReplayItem
	Audit  []Audit
}

// ReplayMutation decides, inside the commit, what changes about a bulk replay; nil is
// one that does not exist. Like a [Mutation] it must be pure.
type ReplayMutation func(*Replay) ReplayChange

var replayName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// ValidReplayName reports whether a bulk replay may have this name.
func ValidReplayName(name string) bool { return replayName.MatchString(name) }
