package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	warmUp    = 200 // jobs before anything is measured
	laps      = 5   // as tollgate bench has
	minIdle   = 10  // jobs measured alone, however long they take
	idlePause = time.Second
	lapWithin = 10 * time.Minute
)

// queue is a peer under measurement, with its workers running.
type queue interface {
	// enqueue sends the jobs from and up to to, and returns when they are accepted.
	enqueue(ctx context.Context, from, to int) error
	// settled waits until the jobs from..to have ended and the end is stored; all
	// before them have.
	settled(ctx context.Context, from, to int) error
	// stored is how many jobs the peer itself has recorded as completed.
	stored(ctx context.Context) (int, error)
	close() error
}

// opening empties the peer's store and starts its workers. batch is how many jobs a
// producer enqueues at once.
type opening struct {
	open  func(context.Context, *tally) (queue, error)
	batch int
	idle  bool // measure single jobs, too
}

// lead has one peer do all that is measured.
func lead(ctx context.Context, o options, p opening) (t turn, err error) {
	count := newTally(warmUp + o.idle + laps*o.jobs)
	q, err := p.open(ctx, count)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if _, err := lap(ctx, q, 0, warmUp, p.batch); err != nil {
		return t, err
	}
	sent := warmUp
	if p.idle {
		if sent, err = t.alone(ctx, o, q, count, sent); err != nil {
			return t, err
		}
	}
	var rates []float64
	for range laps {
		took, err := lap(ctx, q, sent, sent+o.jobs, p.batch)
		if err != nil {
			return t, err
		}
		sent += o.jobs
		rates = append(rates, float64(o.jobs)/took.Seconds())
	}
	t.JobsPerS = median(rates)
	return t, check(ctx, q, count, sent)
}

func check(ctx context.Context, q queue, count *tally, sent int) error {
	stored, err := q.stored(ctx)
	if err != nil {
		return err
	}
	if stored != sent {
		return fmt.Errorf("%d jobs were sent and %d are recorded as completed", sent, stored)
	}
	return count.exactlyOnce(sent)
}

// lap is the time from the first enqueue to the last stored end.
func lap(ctx context.Context, q queue, from, to, batch int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, lapWithin)
	defer cancel()
	began := time.Now()
	var next atomic.Int64
	next.Store(int64(from))
	g, sending := errgroup.WithContext(ctx)
	for range producers {
		g.Go(func() error {
			for {
				n := int(next.Add(int64(batch))) - batch
				if n >= to {
					return nil
				}
				if err := q.enqueue(sending, n, min(to, n+batch)); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	err := q.settled(ctx, from, to)
	return time.Since(began), err
}

// alone measures jobs with nothing else to do, one after the other. The pauses are
// random: a job that follows another at once would always begin at the end of a poll.
func (t *turn) alone(ctx context.Context, o options, q queue, count *tally, from int) (int, error) {
	var started, settled []float64
	end := time.Now().Add(o.idleFor)
	n := from
	for ; n < from+o.idle && (n < from+minIdle || time.Now().Before(end)); n++ {
		time.Sleep(idlePause/5 + rand.N(idlePause))
		began := time.Now()
		if err := q.enqueue(ctx, n, n+1); err != nil {
			return n, err
		}
		if err := q.settled(ctx, n, n+1); err != nil {
			return n, err
		}
		settled = append(settled, ms(time.Since(began)))
		started = append(started, ms(count.started(n).Sub(began)))
	}
	t.StartedMS, t.SettledMS, t.IdleJobs = median(started), median(settled), len(settled)
	return n, nil
}

// until asks again and again, and is as exact as the interval.
func until(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
