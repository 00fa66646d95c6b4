package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

const (
	payloadBytes = 300
	resultBytes  = 300
	producers    = 16
)

// result is what every job answers: 300 bytes of JSON.
var result = json.RawMessage(`{"text":"` + strings.Repeat("x", resultBytes-len(`{"text":""}`)) + `"}`)

// payload is the n-th job: 300 bytes of JSON that say which one it is.
type payload struct {
	Number string `json:"number"`
	Note   string `json:"note"`
}

// Kind is River's name for it.
func (payload) Kind() string { return "noop" }

func newPayload(n int) payload {
	const frame = len(`{"number":"00000000","note":""}`)
	return payload{fmt.Sprintf("%08d", n), strings.Repeat(".", payloadBytes-frame)}
}

func (p payload) number() (int, error) {
	var n int
	if _, err := fmt.Sscanf(p.Number, "%d", &n); err != nil {
		return 0, fmt.Errorf("a job is numbered %q: %w", p.Number, err)
	}
	return n, nil
}

// tally knows how often each job ran, and when first.
type tally struct {
	began time.Time
	ran   atomic.Int64 // jobs, each counted at its first run
	jobs  []struct{ runs, started atomic.Int64 }
}

func newTally(jobs int) *tally {
	return &tally{began: time.Now(), jobs: make([]struct{ runs, started atomic.Int64 }, jobs)}
}

// run is the first line of every handler.
func (t *tally) run(p payload) error {
	n, err := p.number()
	if err != nil {
		return err
	}
	if n < 0 || n >= len(t.jobs) {
		return fmt.Errorf("job %d is none of the %d that were sent", n, len(t.jobs))
	}
	if t.jobs[n].runs.Add(1) == 1 {
		t.jobs[n].started.Store(int64(time.Since(t.began)))
		t.ran.Add(1)
	}
	return nil
}

// started is when a job that has run did so first.
func (t *tally) started(n int) time.Time { return t.began.Add(time.Duration(t.jobs[n].started.Load())) }

// exactlyOnce tells whether the first n jobs, and no others, ran once each.
func (t *tally) exactlyOnce(n int) error {
	var problems []error
	for i := range t.jobs {
		want := int64(1)
		if i >= n {
			want = 0
		}
		if runs := t.jobs[i].runs.Load(); runs != want && len(problems) < 10 {
			problems = append(problems, fmt.Errorf("job %d ran %d times: want %d", i, runs, want))
		}
	}
	return errors.Join(problems...)
}
