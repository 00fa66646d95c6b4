package history_test

import (
	"math"
	"testing"
	"time"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
	"tollgate/internal/history"
	"tollgate/schemas"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// settled is a call that ended after it took that long.
func settled(status schemas.Status, took time.Duration, generation int) dispatcher.Sighting {
	v := classify.Success(nil, nil)
	return dispatcher.Sighting{Verdict: &v, Decision: gate.Decision{Action: gate.Settle, Status: status},
		Record: &dedupe.Record{Generation: generation, Published: start, Settled: start.Add(took)}}
}

// run lets a day and more pass, with one call of 100 ms every ten seconds.
func run(r *history.Recorder, d time.Duration) time.Time {
	now := start
	for range d / history.Fine {
		now = now.Add(history.Fine)
		r.Decided(settled(schemas.Succeeded, 100*time.Millisecond, 0))
		r.Look(now, history.Gauges{Queued: 1})
	}
	return now
}

func TestEveryOutcomeIsInJustOneStep(t *testing.T) {
	for _, tc := range []struct {
		window, step time.Duration
		want         int
	}{
		{5 * time.Minute, 5 * time.Minute, 30},
		{time.Hour, 30 * time.Second, 360},
		{6 * time.Hour, 3 * time.Minute, 6 * 360},
		{24 * time.Hour, 12 * time.Minute, 24 * 360},
	} {
		r := history.New(start)
		s := r.Read(run(r, 25*time.Hour+10*time.Second), tc.window, tc.step)
		sum, before := 0, time.Time{}
		for _, p := range s.Points {
			if sum += p.Total(); !p.At.After(before) {
				t.Errorf("%s: %s comes after %s", tc.window, p.At, before)
			}
			before = p.At
		}
		// a step that is cut by the beginning of the window is whole in it
		if sum != s.Whole.Total() || sum < tc.want || sum > tc.want+7 {
			t.Errorf("%s in steps of %s: %d outcomes in %d steps and %d in the whole, want %d", tc.window, tc.step, sum, len(s.Points), s.Whole.Total(), tc.want)
		}
		if n := int(tc.window / tc.step); len(s.Points) < n || len(s.Points) > n+2 {
			t.Errorf("%s in steps of %s: %d steps", tc.window, tc.step, len(s.Points))
		}
	}
}

// What happened a moment ago is in it already, before its step is over.
func TestTheStepUnderWayIsShown(t *testing.T) {
	r := history.New(start)
	r.Decided(settled(schemas.Succeeded, time.Second, 0))
	r.Decided(settled(schemas.UnknownOutcome, time.Second, 0))
	r.Decided(dispatcher.Sighting{Decision: gate.Decision{Action: gate.Refuse}})
	lost := classify.Lost("TIMEOUT", "")
	r.Decided(dispatcher.Sighting{Verdict: &lost, Decision: gate.Decision{Action: gate.Retry}})
	s := r.Read(start.Add(2*time.Second), time.Hour, time.Minute)
	p := s.Whole
	if len(s.Points) != 1 || p.Outcomes[schemas.Succeeded] != 1 || p.Outcomes[schemas.UnknownOutcome] != 1 || p.Outcomes[schemas.Rejected] != 1 || p.Attempts != 3 || p.AttemptsFailed != 1 {
		t.Errorf("%+v", s)
	}
	if p.PerSecond() != 1.5 || p.Letters != -1 {
		t.Errorf("%v a second, %d letters before anybody has looked", p.PerSecond(), p.Letters)
	}
}

func TestPercentilesAreOffByAnEighthAtMost(t *testing.T) {
	for _, took := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 99 * time.Millisecond, 3 * time.Second, 20 * time.Minute} {
		r := history.New(start)
		for range 97 {
			r.Decided(settled(schemas.Succeeded, took, 0))
		}
		for range 3 {
			r.Decided(settled(schemas.Succeeded, 3*took, 0))
		}
		p := r.Read(start.Add(time.Second), time.Hour, time.Hour).Whole
		for got, want := range map[float64]time.Duration{p.P50MS: took, p.P95MS: took, p.P99MS: 3 * took} {
			if ms := float64(want.Milliseconds()); math.Abs(got-ms) > ms/8 {
				t.Errorf("%v ms, want about %s", got, want)
			}
		}
	}
}

// A replay's call was published long ago, and a clock may have been set back.
func TestReplaysAreNotTimed(t *testing.T) {
	r := history.New(start)
	r.Decided(settled(schemas.Succeeded, 30*time.Hour, 1))
	r.Decided(settled(schemas.Succeeded, -time.Hour, 0))
	if p := r.Read(start.Add(time.Second), time.Hour, time.Hour).Whole; p.Timed != 1 || p.P99MS >= 1 || p.Total() != 2 {
		t.Errorf("%+v", p)
	}
}

// The most that was seen is kept: a peak between two points is the reason one looks.
func TestPeaksAreKept(t *testing.T) {
	r := history.New(start)
	for i, n := range []int{3, 80, 4, -1, 5, 2} {
		r.Look(start.Add(time.Duration(i+1)*history.Fine), history.Gauges{Queued: n, Letters: -1})
	}
	if p := r.Read(start.Add(time.Minute), time.Hour, time.Hour).Whole; p.Queued != 80 || p.Letters != -1 {
		t.Errorf("%+v", p.Gauges)
	}
}

// A burst leaves something owed at any instant; what stays owed is another matter.
func TestOwedCountsFromTheLastLookThatFoundNothing(t *testing.T) {
	r := history.New(start)
	for i, n := range []int{4, 0, 3, 1} {
		r.Look(start.Add(time.Duration(i+1)*history.Fine), history.Gauges{Owed: n})
	}
	now := start.Add(4 * history.Fine)
	if since := r.Read(now, time.Minute, time.Minute).OwedSince; !since.Equal(start.Add(3 * history.Fine)) {
		t.Errorf("owed since %s", since)
	}
	r.Look(now.Add(history.Fine), history.Gauges{})
	if since := r.Read(now, time.Minute, time.Minute).OwedSince; !since.IsZero() {
		t.Errorf("owed since %s, and nothing is", since)
	}
}

// A history takes as much room after a month as after a day.
func TestItsSizeIsBounded(t *testing.T) {
	r := history.New(start)
	now := run(r, 30*time.Hour)
	s := r.Read(now, 48*time.Hour, time.Minute)
	if n := len(s.Points); n != 1441 {
		t.Errorf("%d minutes are kept, want a day's and the one under way", n)
	}
}

func BenchmarkDecided(b *testing.B) {
	r := history.New(start)
	s := settled(schemas.Succeeded, 20*time.Millisecond, 0)
	b.ReportAllocs()
	for b.Loop() {
		r.Decided(s)
	}
}
