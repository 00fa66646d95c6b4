// Package history remembers how the last day went: outcomes, attempts and latency as
// they are decided, and the backlog as it is looked at. It is for people's charts;
// what is alerted on are the metrics.
//
// It is in memory, bounded, and begins anew at a start. Nothing is decided here, and
// nothing is read: whoever keeps one tells it what it looked like.
package history

import (
	"sync"
	"time"

	"tollgate/dispatcher"
	"tollgate/dispatcher/gate"
	"tollgate/schemas"
)

// How fine and how far back: an hour in steps of ten seconds, a day in minutes. With
// the histogram of each that is 0.8 MB, whatever happens.
const (
	Fine     = 10 * time.Second
	Coarse   = time.Minute
	FineFor  = time.Hour
	Longest  = 24 * time.Hour
	statuses = 9
)

// Gauges is how things stood when somebody looked. -1 is what could not be read.
type Gauges struct {
	Queued  int `json:"queued"`  // messages on the lanes, those being worked on among them
	Running int `json:"running"` // attempts
	Waiting int `json:"waiting"` // calls, for their next attempt
	Owed    int `json:"owed"`    // letters, retries and audit entries not stored yet
	Letters int `json:"letters"` // active dead letters
}

// Recorder keeps the history. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex // guards the rest
	started time.Time
	fine    ring // what is over
	coarse  ring
	ten     sample // under way
	minute  sample
	owed    time.Time // since when every look has found something owed; zero: the last has not
}

// New begins a history.
func New(now time.Time) *Recorder {
	return &Recorder{started: now, fine: newRing(FineFor / Fine), coarse: newRing(Longest / Coarse), ten: begin(now, unread), minute: begin(now, unread)}
}

// unread is how things stand as long as nobody has looked.
var unread = Gauges{-1, -1, -1, -1, -1}

// Decided implements [dispatcher.Observer].
func (r *Recorder) Decided(s dispatcher.Sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ten.decided(&s)
	r.minute.decided(&s)
}

// Look notes how things stand and ends the steps that are over. It is to be called
// every [Fine].
func (r *Recorder) Look(now time.Time, g Gauges) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ten.look(g)
	r.minute.look(g)
	if g.Owed <= 0 {
		r.owed = time.Time{}
	} else if r.owed.IsZero() {
		r.owed = now
	}
	if now.Sub(r.ten.start) >= Fine {
		r.fine.add(r.ten.end(now))
		r.ten = begin(now, g)
	}
	if now.Sub(r.minute.start) >= Coarse {
		r.coarse.add(r.minute.end(now))
		r.minute = begin(now, g)
	}
}

// sample is one step.
type sample struct {
	start, until time.Time
	outcomes     [statuses]uint32
	attempts     uint32
	failed       uint32
	took         durations
	seen         Gauges // the most of each
}

func begin(now time.Time, g Gauges) sample { return sample{start: now, seen: g} }

func (s sample) end(now time.Time) sample {
	s.until = now
	return s
}

func (s *sample) look(g Gauges) {
	s.seen = Gauges{max(s.seen.Queued, g.Queued), max(s.seen.Running, g.Running), max(s.seen.Waiting, g.Waiting), max(s.seen.Owed, g.Owed), max(s.seen.Letters, g.Letters)}
}

func (s *sample) decided(d *dispatcher.Sighting) {
	if v := d.Verdict; v != nil {
		s.attempts++
		if !v.OK() {
			s.failed++
		}
	}
	switch d.Decision.Action {
	case gate.Settle:
		s.settled(d)
	case gate.Refuse:
		s.outcomes[place(schemas.Rejected)]++
	}
}

// settled counts an outcome. How long a call waited for an operator's replay says
// nothing about the dispatcher, so only first generations are timed.
func (s *sample) settled(d *dispatcher.Sighting) {
	i := place(d.Decision.Status)
	if i < 0 {
		return
	}
	s.outcomes[i]++
	if r := d.Record; r != nil && r.Generation == 0 {
		s.took.add(r.Settled.Sub(r.Published))
	}
}

// add makes one step of two.
func (s *sample) add(o *sample) {
	for i, n := range o.outcomes {
		s.outcomes[i] += n
	}
	s.attempts += o.attempts
	s.failed += o.failed
	s.took.merge(&o.took)
	s.look(o.seen)
	s.until = o.until
}

// Statuses are what outcomes are counted by, the best first.
var Statuses = [statuses]schemas.Status{schemas.Succeeded, schemas.ToolError, schemas.Repair, schemas.Rejected, schemas.Cancelled,
	schemas.Unavailable, schemas.Exhausted, schemas.Failed, schemas.UnknownOutcome}

func place(s schemas.Status) int {
	for i, known := range Statuses {
		if s == known {
			return i
		}
	}
	return -1
}

// ring keeps the newest samples.
type ring struct {
	kept []sample
	next int
}

func newRing(n time.Duration) ring { return ring{kept: make([]sample, 0, n)} }

func (r *ring) add(s sample) {
	if len(r.kept) < cap(r.kept) {
		r.kept = append(r.kept, s)
		return
	}
	r.kept[r.next] = s
	r.next = (r.next + 1) % len(r.kept)
}

// each gives the samples to f, the oldest first.
func (r *ring) each(f func(*sample)) {
	for i := range r.kept {
		f(&r.kept[(r.next+i)%len(r.kept)])
	}
}
