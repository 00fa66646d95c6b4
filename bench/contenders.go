package main

import (
	"context"
	"time"
)

// Durability is what a contender may lose when the power fails: rows are compared with
// the Tollgate of the same durability only.
const (
	everySecond = "synced every second"
	always      = "synced before it counts"
)

// contender is one row of the table.
type contender struct {
	Name       string
	Durability string
	Way        way  // how Tollgate is called; "" of a peer
	Extra      bool // not the same work; not compared
	measure    func(context.Context, options) (turn, error)
}

// way is how a producer calls Tollgate: what the others are compared with.
type way string

const (
	published way = "published" // a message; the producer does not wait for its end
	requested way = "requested" // a request; the producer waits until the reply is there
)

// turn is what one contender did in one round. A rate is the median of its laps.
type turn struct {
	JobsPerS  float64 `json:"jobs_per_s"`
	StartedMS float64 `json:"idle_started_p50_ms,omitempty"` // enqueue to the handler's first line; 0: not measured
	SettledMS float64 `json:"idle_settled_p50_ms,omitempty"` // enqueue to the stored end
	IdleJobs  int     `json:"idle_jobs,omitempty"`
	FsyncMS   float64 `json:"fsync_p50_ms,omitempty"`
}

// The settings are the projects' own: what the first page of their documentation shows,
// then what makes them fast. asynq's README shows ten workers; it has no benchmark
// settings, so it gets Tollgate's concurrency and asks Redis a hundred times more often.
// River's README shows a hundred workers; the fast settings are those of its own
// benchmark command. A result is kept where Tollgate keeps one.
func contenders(o options, dir string, redis, postgres *server) []contender {
	asynqs := func(s asynqSettings) func(context.Context, options) (turn, error) {
		return func(ctx context.Context, o options) (turn, error) { return lead(ctx, o, asynqQueue(redis, s)) }
	}
	rivers := func(s riverSettings) func(context.Context, options) (turn, error) {
		return func(ctx context.Context, o options) (turn, error) { return lead(ctx, o, riverQueue(postgres, s)) }
	}
	const poll = 10 * time.Millisecond
	documented := riverSettings{workers: 100, results: true}
	fast := riverSettings{workers: 2000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond, results: true}
	bare, bulk := fast, fast
	bare.results = false
	bulk.bulk = true
	return []contender{
		{Name: "**Tollgate**, `--sync 1s`", Durability: everySecond, Way: published, measure: tollgate(dir, "1s", published)},
		{Name: "the same by request, each waits for its reply", Durability: everySecond, Way: requested, measure: tollgate(dir, "1s", requested)},
		{Name: "asynq, 10 workers", Durability: everySecond, measure: asynqs(asynqSettings{workers: 10, results: true})},
		{Name: "asynq, 256 workers, polls every 10 ms", Durability: everySecond, measure: asynqs(asynqSettings{workers: 256, poll: poll, results: true})},
		{Name: "the same, without results", Durability: everySecond, measure: asynqs(asynqSettings{workers: 256, poll: poll})},
		{Name: "**Tollgate**, `--sync always`", Durability: always, Way: published, measure: tollgate(dir, "always", published)},
		{Name: "the same by request, each waits for its reply", Durability: always, Way: requested, measure: tollgate(dir, "always", requested)},
		{Name: "River, 100 workers", Durability: always, measure: rivers(documented)},
		{Name: "River, 2,000 workers, fetches every 2 ms", Durability: always, measure: rivers(fast)},
		{Name: "the same, without results", Durability: always, measure: rivers(bare)},
		{Name: "the same with results, enqueued 100 at a time", Durability: always, Extra: true, measure: rivers(bulk)},
	}
}
