// Command bench puts Tollgate beside two job queues, on one machine in one run: asynq on
// Redis and River on PostgreSQL. It starts its own servers on empty directories, lets
// everybody do the same work in turn, and prints a table; run.sh runs it.
//
// It is a module of its own, so that Tollgate does not depend on what it is compared
// with. It tunes nobody but by the settings named in the table, and says of each run
// that every job ran exactly once, or fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options say how much is measured.
type options struct {
	tollgate string        // the program
	jobs     int           // of a round
	rounds   int           // how often everybody has a turn
	idle     int           // jobs that are measured alone, each turn
	idleFor  time.Duration // and the longest that takes; at least minIdle are measured
	out      string        // where the results go, without extension
	command  string        // what the reader has to type
}

func main() {
	var o options
	flag.StringVar(&o.tollgate, "tollgate", "bin/tollgate", "the program to measure")
	flag.IntVar(&o.jobs, "jobs", 10_000, "jobs of a round")
	flag.IntVar(&o.rounds, "rounds", 3, "how often everybody has a turn")
	flag.IntVar(&o.idle, "idle", 100, "jobs measured alone, in each turn")
	flag.DurationVar(&o.idleFor, "idle-for", 20*time.Second, "the longest that those take")
	flag.StringVar(&o.out, "out", "dist/bench-peers", "where the results go, without .json and .md")
	flag.StringVar(&o.command, "command", "bench/run.sh", "what the table says it was made by")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.jobs < 1 || o.rounds < 1 || o.idle < 1 {
		return errors.New("--jobs, --rounds and --idle count something: want 1 or more")
	}
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user when this is root
		return err
	}
	redis, err := startRedis(ctx, filepath.Join(dir, "redis"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.stop()) }()
	postgres, err := startPostgres(ctx, filepath.Join(dir, "postgres"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.stop()) }()
	with := about(ctx, o, redis, postgres) // now: the checkout may move on meanwhile
	r, err := compare(ctx, o, contenders(o, dir, redis, postgres))
	if err != nil {
		return err
	}
	r.About = with
	return r.write(o.out)
}

// compare gives everybody a turn in each round, so that a slow moment of the machine
// is nobody's alone.
func compare(ctx context.Context, o options, all []contender) (report, error) {
	turns := make([][]turn, len(all))
	for round := range o.rounds {
		for i, c := range all {
			began := time.Now()
			t, err := c.measure(ctx, o)
			if err != nil {
				return report{}, fmt.Errorf("measure %s: %w", c.Name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s: %.0f/s (%.0f s)\n", round+1, o.rounds, c.Name, t.JobsPerS, time.Since(began).Seconds())
			turns[i] = append(turns[i], t)
		}
	}
	var r report
	for i, c := range all {
		r.Rows = append(r.Rows, summarise(c, turns[i]))
	}
	return r, nil
}
