package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// shop is a queue that does the work at once, and some of it wrongly.
type shop struct {
	count        *tally
	twice, never int // job numbers; -1: none
	forgets      int // jobs it does not record
	batches      atomic.Int64
	closed       bool
}

func (s *shop) enqueue(_ context.Context, from, to int) error {
	s.batches.Add(1)
	for n := from; n < to; n++ {
		times := 1
		switch n {
		case s.twice:
			times = 2
		case s.never:
			times = 0
		}
		for range times {
			if err := s.count.run(newPayload(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *shop) settled(context.Context, int, int) error { return nil }

func (s *shop) stored(context.Context) (int, error) { return int(s.count.ran.Load()) - s.forgets, nil }

func (s *shop) close() error { s.closed = true; return nil }

func leadShop(t *testing.T, s *shop, batch int) (turn, error) {
	t.Helper()
	got, err := lead(t.Context(), options{jobs: 50, idle: 2, idleFor: time.Minute}, opening{batch: batch, idle: true, open: func(_ context.Context, count *tally) (queue, error) {
		s.count = count
		return s, nil
	}})
	if !s.closed {
		t.Error("the queue was left open")
	}
	return got, err
}

func TestLeadSendsEveryJobOnce(t *testing.T) {
	for batch, batches := range map[int]int64{1: warmUp + 2 + laps*50, 20: warmUp/20 + 2 + laps*3} {
		s := &shop{twice: -1, never: -1}
		got, err := leadShop(t, s, batch)
		if err != nil || got.JobsPerS <= 0 || got.IdleJobs != 2 || got.SettledMS <= 0 || got.StartedMS > got.SettledMS {
			t.Errorf("batches of %d: %+v, %v", batch, got, err)
		}
		if n := s.batches.Load(); n != batches {
			t.Errorf("batches of %d: %d were sent, want %d", batch, n, batches)
		}
	}
}

// A rate of work that was not done is refused.
func TestLeadRefusesOtherWork(t *testing.T) {
	last := warmUp + 2 + laps*50 - 1
	for want, s := range map[string]*shop{
		"ran 2 times":               {twice: last, never: -1},
		"are recorded as completed": {twice: -1, never: last},
		"and 450 are recorded":      {twice: -1, never: -1, forgets: 2},
	} {
		if _, err := leadShop(t, s, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q: %v", want, err)
		}
	}
}

func TestUntilEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := until(ctx, time.Millisecond, func() (bool, error) { return false, nil }); err == nil {
		t.Error("it waited for nothing, without an error")
	}
}
