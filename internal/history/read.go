package history

import (
	"time"

	"tollgate/schemas"
)

// Point is one step of a history.
type Point struct {
	At             time.Time              `json:"at"` // its beginning
	SpanMS         int64                  `json:"span_ms"`
	Outcomes       map[schemas.Status]int `json:"outcomes,omitempty"`
	Attempts       int                    `json:"attempts"` // that ended
	AttemptsFailed int                    `json:"attempts_failed"`
	Timed          int                    `json:"timed"` // outcomes whose time from publish is in the percentiles
	P50MS          float64                `json:"p50_ms"`
	P95MS          float64                `json:"p95_ms"`
	P99MS          float64                `json:"p99_ms"`
	Gauges
}

// Total is how many outcomes there were.
func (p *Point) Total() (n int) {
	for _, x := range p.Outcomes {
		n += x
	}
	return n
}

// PerSecond is how many outcomes there were a second.
func (p *Point) PerSecond() float64 {
	if p.SpanMS <= 0 {
		return 0
	}
	return float64(p.Total()) * 1000 / float64(p.SpanMS)
}

// Series is what was recorded of a window.
type Series struct {
	Started time.Time     `json:"started"` // before it nothing is known: the dispatcher was started then
	From    time.Time     `json:"from"`
	Until   time.Time     `json:"until"`
	Step    time.Duration `json:"step"`
	Points  []Point       `json:"items"`
	Whole   Point         `json:"whole"` // the window as one

	OwedSince time.Time `json:"owed_since,omitzero"` // every look since has found letters, retries or audit entries owed
}

// Read returns the window that ends now in steps that begin at round times, so that
// they stay what they were when they are read again.
func (r *Recorder) Read(now time.Time, window, step time.Duration) Series {
	out := Series{Started: r.started, From: now.Add(-window), Until: now, Step: step, Points: []Point{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.OwedSince = r.owed
	from, current := &r.coarse, r.minute.end(now)
	if window <= FineFor {
		from, current = &r.fine, r.ten.end(now)
	}
	whole := begin(time.Time{}, unread)
	var group sample
	flush := func() {
		if !group.start.IsZero() {
			out.Points = append(out.Points, group.point())
		}
	}
	take := func(s *sample) {
		if !s.until.After(out.From) {
			return
		}
		if whole.start.IsZero() {
			whole.start = s.start
		}
		whole.add(s)
		if group.start.IsZero() || !s.start.Truncate(step).Equal(group.start.Truncate(step)) {
			flush()
			group = begin(s.start, unread)
		}
		group.add(s)
	}
	from.each(take)
	take(&current)
	flush()
	out.Whole = whole.point()
	return out
}

func (s *sample) point() Point {
	p := Point{At: s.start.UTC(), SpanMS: s.until.Sub(s.start).Milliseconds(), Attempts: int(s.attempts), AttemptsFailed: int(s.failed), Timed: int(s.took.count()), Gauges: s.seen,
		P50MS: ms(s.took.percentile(.5)), P95MS: ms(s.took.percentile(.95)), P99MS: ms(s.took.percentile(.99))}
	for i, n := range s.outcomes {
		if n > 0 {
			if p.Outcomes == nil {
				p.Outcomes = map[schemas.Status]int{}
			}
			p.Outcomes[Statuses[i]] = int(n)
		}
	}
	return p
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
