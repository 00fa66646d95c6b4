package dispatcher

import (
	"context"
	"math"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Slots is a tool's concurrency cap. A slot is taken before a message is, and
// jobs together hold at most their share, so a backlog of them never blocks calls.
type Slots struct {
	all, jobs *semaphore.Weighted
	inUse     atomic.Int64
	Cap, Jobs int
}

func newSlots(cap int, share float64) *Slots {
	cap = max(1, cap)
	jobs := min(cap, max(1, int(math.Round(float64(cap)*share))))
	return &Slots{all: semaphore.NewWeighted(int64(cap)), jobs: semaphore.NewWeighted(int64(jobs)), Cap: cap, Jobs: jobs}
}

// Acquire waits for a slot. The release it returns must be called once.
func (s *Slots) Acquire(ctx context.Context, job bool) (release func(), err error) {
	if job {
		if err := s.jobs.Acquire(ctx, 1); err != nil {
			return nil, err
		}
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		if job {
			s.jobs.Release(1)
		}
		return nil, err
	}
	return s.taken(job), nil
}

// TryAcquire takes a slot if one is free now.
func (s *Slots) TryAcquire(job bool) (release func(), ok bool) {
	if job && !s.jobs.TryAcquire(1) {
		return nil, false
	}
	if !s.all.TryAcquire(1) {
		if job {
			s.jobs.Release(1)
		}
		return nil, false
	}
	return s.taken(job), true
}

func (s *Slots) taken(job bool) func() {
	s.inUse.Add(1)
	return func() {
		s.inUse.Add(-1)
		s.all.Release(1)
		if job {
			s.jobs.Release(1)
		}
	}
}

// InUse is how many slots are taken.
func (s *Slots) InUse() int { return int(s.inUse.Load()) }

// Free is how many more messages it makes sense to ask for; at least 1.
func (s *Slots) Free(job bool) int {
	free := s.Cap - s.InUse()
	if job {
		free = min(free, s.Jobs)
	}
	return max(1, free)
}
