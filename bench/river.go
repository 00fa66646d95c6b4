package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverSettings struct {
	workers  int
	cooldown time.Duration // the least time between two fetches; 0: River's default, 100 ms
	poll     time.Duration // how often it fetches without a notification; 0: River's default, a second
	results  bool          // record the job's output
	bulk     bool          // enqueue many jobs at once
}

// riverConns is one for each producer, and as many for the workers: with fewer, the
// producers would wait for each other instead of committing together.
const riverConns = 2 * producers

// riverPeer is River, one client that inserts and works.
type riverPeer struct {
	s        riverSettings
	pool     *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	finished atomic.Int64 // events of completed jobs: sent when their state is committed
	cancel   func()
	events   sync.WaitGroup
}

// noop is River's worker.
type noop struct {
	river.WorkerDefaults[payload]
	tally   *tally
	results bool
}

func (w *noop) Work(ctx context.Context, job *river.Job[payload]) error {
	if err := w.tally.run(job.Args); err != nil {
		return err
	}
	if !w.results {
		return nil
	}
	return river.RecordOutput(ctx, result)
}

func riverQueue(postgres *server, s riverSettings) opening {
	o := opening{batch: 1, idle: s.results && !s.bulk}
	if s.bulk {
		o.batch = 100
	}
	o.open = func(ctx context.Context, t *tally) (queue, error) {
		config, err := pgxpool.ParseConfig(postgres.addr)
		if err != nil {
			return nil, err
		}
		config.MaxConns = riverConns
		p := &riverPeer{s: s}
		if p.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
			return nil, err
		}
		if err := p.start(ctx, t); err != nil {
			p.pool.Close()
			return nil, err
		}
		return p, nil
	}
	return o
}

func (p *riverPeer) start(ctx context.Context, t *tally) error {
	if err := p.empty(ctx); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &noop{tally: t, results: p.s.results})
	var err error
	p.client, err = river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		FetchCooldown:     p.s.cooldown,
		FetchPollInterval: p.s.poll,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: p.s.workers}},
		Workers:           workers,
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	// An event that finds the channel full is dropped: there is room for all.
	events, cancel := p.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: len(t.jobs), Kinds: []river.EventKind{river.EventKindJobCompleted}})
	p.cancel = cancel
	p.events.Go(func() {
		for range events { // ends with cancel
			p.finished.Add(1)
		}
	})
	if err := p.client.Start(ctx); err != nil {
		p.cancel()
		p.events.Wait()
		return err
	}
	return nil
}

// empty makes the tables, or makes them as good as new, as River's own benchmark does.
func (p *riverPeer) empty(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(p.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	for _, statement := range []string{"TRUNCATE river_job", "VACUUM FULL river_job"} {
		if _, err := p.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (p *riverPeer) enqueue(ctx context.Context, from, to int) error {
	if !p.s.bulk {
		for n := from; n < to; n++ {
			if _, err := p.client.Insert(ctx, newPayload(n), nil); err != nil {
				return err
			}
		}
		return nil
	}
	var many []river.InsertManyParams
	for n := from; n < to; n++ {
		many = append(many, river.InsertManyParams{Args: newPayload(n)})
	}
	_, err := p.client.InsertMany(ctx, many)
	return err
}

func (p *riverPeer) settled(ctx context.Context, _, to int) error {
	return until(ctx, time.Millisecond, func() (bool, error) { return p.finished.Load() >= int64(to), nil })
}

func (p *riverPeer) stored(ctx context.Context) (n int, err error) {
	err = p.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&n)
	return n, err
}

func (p *riverPeer) close() error {
	err := p.client.Stop(context.Background())
	p.cancel()
	p.events.Wait()
	p.pool.Close()
	return err
}
