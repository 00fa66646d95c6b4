// Package bench measures what a call costs: the whole dispatcher against the least
// that any design on JetStream has to do, on the same server, in the same run.
//
// It tunes nothing: what it runs is what `tollgate serve` runs, with an embedded
// server, real files and the given sync. Its numbers are of this machine only.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"
)

// Options say what to measure.
type Options struct {
	Calls          int           // a run; 0: 2000
	Sync           time.Duration // of server and ledger; 0: always, every write is on the disk before it counts
	Retained       int           // settled calls that the ledger holds beforehand
	PendingRetries int           // calls that wait for an attempt an hour away
	Tool           string        // function or http; "": function
	Via            string        // calls: the stream; do: the request/reply endpoint; "": calls
	Payload        int           // bytes of a call's arguments; 0: as many as an example has, 80
	Pause          time.Duration // the longest, at random, before each call that is alone in flight; 0: none
	InFlight       int           // 0: 16 publishers, or 128 requests via do
	Dir            string        // for the files; "": a temporary one, removed at the end
	Rounds         int           // product and floor alternate so often; 0: 5
	Progress       func(string)  // told what is done now; nil: nobody

	// Apart calls [Prepare] in a process of its own, so that what the filling took is not in
	// the memory that is measured; nil: it is called here.
	Apart func(context.Context, Options) error
}

// Report is what was measured. A rate is the median of all rounds.
type Report struct {
	Calls             int     `json:"calls"`             // a run
	CallsPerS         float64 `json:"calls_per_s"`       // publish to settled outcome
	FloorCallsPerS    float64 `json:"floor_calls_per_s"` // bare JetStream: publish, consume, publish a result, ack
	Ratio             float64 `json:"ratio"`             // of the two, round by round
	P50MS             float64 `json:"p50_ms"`            // with one call in flight
	P99MS             float64 `json:"p99_ms"`
	FloorP50MS        float64 `json:"floor_p50_ms"`
	FsyncP50MS        float64 `json:"fsync_p50_ms"` // append 4 KiB and sync
	CPUPerCallUS      float64 `json:"cpu_us_per_call"`
	LedgerBytes       float64 `json:"ledger_bytes_per_call"` // what the file grows by, without its free space
	LedgerUncompacted float64 `json:"ledger_bytes_per_call_uncompacted"`
	RSSMB             float64 `json:"rss_mb"`
	Sync              string  `json:"sync"`
	RetainedKeys      int     `json:"retained_keys"`
	PendingRetries    int     `json:"pending_retries"`
	StartS            float64 `json:"start_s"` // of a dispatcher on this ledger, server included

	// Of a filled ledger only.
	LedgerColdS    float64 `json:"ledger_start_cold_s,omitempty"` // opening it from the disk
	LedgerWarmS    float64 `json:"ledger_start_warm_s,omitempty"` // and from the system's cache
	HeapPerKey     float64 `json:"heap_bytes_per_key,omitempty"`
	SmallCallsPerS float64 `json:"small_calls_per_s,omitempty"` // with a small ledger, in turns with this one
	GrowthRatio    float64 `json:"growth_ratio,omitempty"`      // this one's rate to that, round by round
}

func (o Options) withDefaults() (Options, error) {
	if err := o.Check(); err != nil {
		return o, err
	}
	o.Calls = orDefault(o.Calls, 2000)
	o.Rounds = orDefault(o.Rounds, 5)
	if o.Tool == "" {
		o.Tool = "function"
	}
	if o.Via == "" {
		o.Via = "calls"
	}
	if o.InFlight == 0 {
		o.InFlight = 16
		if o.Via == "do" {
			o.InFlight = 128
		}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o, nil
}

// What makes sense to measure. More than this is a slip of the hand, and would end in a
// full disk or memory, or in a panic of the server's.
const (
	shortestSync = time.Millisecond
	mostInFlight = 100_000
	mostFilled   = 100_000_000
	mostPayload  = 1_000_000 // the server takes a megabyte, headers included
)

// Check says everything that is wrong with the options.
func (o Options) Check() error {
	var problems []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	add(!slices.Contains([]string{"", "function", "http"}, o.Tool), "there is no tool %q to measure: want function or http", o.Tool)
	add(!slices.Contains([]string{"", "calls", "do"}, o.Via), "calls cannot be sent via %q: want calls or do", o.Via)
	add(min(o.Calls, o.Retained, o.PendingRetries, o.Payload, o.InFlight, o.Rounds) < 0 || min(o.Sync, o.Pause) < 0, "a number is negative: want 0 or more")
	add(o.Sync > 0 && o.Sync < shortestSync, "a sync every %s is too often: want %s or more, or always", o.Sync, shortestSync)
	add(o.InFlight > mostInFlight, "%d in flight are too many: want %d at most", o.InFlight, mostInFlight)
	add(o.Retained > mostFilled, "%d retained calls are too many: want %d at most", o.Retained, mostFilled)
	add(o.PendingRetries > mostFilled, "%d pending retries are too many: want %d at most", o.PendingRetries, mostFilled)
	add(o.Payload > mostPayload, "a payload of %d bytes is too big: want %d at most", o.Payload, mostPayload)
	return errors.Join(problems...)
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// Run measures. With the defaults it takes less than a minute.
func Run(ctx context.Context, o Options) (r Report, err error) {
	if o, err = o.withDefaults(); err != nil {
		return r, err
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "tollgate-bench-"); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	r = Report{Calls: o.Calls, Sync: "always", RetainedKeys: o.Retained, PendingRetries: o.PendingRetries}
	if o.Sync > 0 {
		r.Sync = o.Sync.String()
	}
	p, err := start(ctx, o, &r)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.measure(ctx, &r); err != nil {
		return r, err
	}
	if o.Retained+o.PendingRetries > 0 {
		r.SmallCallsPerS, r.GrowthRatio, err = p.compare(ctx)
	}
	return r, err
}

// Prepare makes what a dispatcher finds that has been used: a filled ledger in o.Dir, and
// the schedules of its waiting calls.
func Prepare(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	o.Progress("filling the ledger")
	if err := fill(ctx, ledgerPath(o), o); err != nil {
		return fmt.Errorf("fill the ledger: %w", err)
	}
	if o.PendingRetries > 0 {
		o.Progress("arming the retries")
		if err := arm(ctx, o); err != nil {
			return fmt.Errorf("arm the retries: %w", err)
		}
	}
	return nil
}

func ledgerPath(o Options) string { return filepath.Join(o.Dir, "ledger.db") }

// start prepares the ledger and starts a dispatcher on it.
func start(ctx context.Context, o Options, r *Report) (*product, error) {
	prepare := Prepare
	if o.Apart != nil && o.Retained+o.PendingRetries > 0 {
		o.Progress("filling the ledger, in a process of its own")
		prepare = o.Apart
	}
	if err := prepare(ctx, o); err != nil {
		return nil, err
	}
	path := ledgerPath(o)
	if err := measureStart(path, o.Retained+o.PendingRetries, r); err != nil {
		return nil, fmt.Errorf("open the filled ledger: %w", err)
	}
	debug.FreeOSMemory() // what the filling took is none of the dispatcher's
	o.Progress("starting a dispatcher")
	began := time.Now()
	p, err := startProduct(ctx, o)
	r.StartS = time.Since(began).Seconds()
	return p, err
}

// measure fills the report: idle latencies first, then the alternating rounds.
func (p *product) measure(ctx context.Context, r *Report) (err error) {
	f, err := startFloor(ctx, p)
	if err != nil {
		return err
	}
	defer f.close()
	if r.FsyncP50MS, err = fsyncP50(p.o.Dir); err != nil {
		return err
	}
	before, err := p.ledgerSize()
	if err != nil {
		return err
	}
	debug.FreeOSMemory()
	p.o.Progress("one call in flight")
	idle, err := p.latencies(ctx)
	if err != nil {
		return err
	}
	floorIdle, err := f.latencies(ctx)
	if err != nil {
		return err
	}
	r.P50MS, r.P99MS, r.FloorP50MS = ms(quantile(idle, 0.5)), ms(quantile(idle, 0.99)), ms(quantile(floorIdle, 0.5))
	var rates, floors, ratios, cpu []float64
	for round := range p.o.Rounds {
		p.o.Progress(fmt.Sprintf("round %d of %d", round+1, p.o.Rounds))
		calm(ctx)
		used := cpuTime()
		took, err := p.round(ctx, round)
		if err != nil {
			return err
		}
		cpu = append(cpu, float64((cpuTime()-used).Microseconds())/float64(p.o.Calls))
		calm(ctx)
		bare, err := f.round(ctx, round)
		if err != nil {
			return err
		}
		rates, floors = append(rates, float64(p.o.Calls)/took.Seconds()), append(floors, float64(p.o.Calls)/bare.Seconds())
		ratios = append(ratios, bare.Seconds()/took.Seconds())
	}
	r.RSSMB = rssMB() // before the ledger is looked at, which takes memory too
	r.CallsPerS, r.FloorCallsPerS, r.Ratio, r.CPUPerCallUS = median(rates), median(floors), median(ratios), median(cpu)
	after, err := p.ledgerSize()
	if err != nil {
		return err
	}
	sent := len(idle) + p.o.Rounds*p.o.Calls
	if ran := p.ran.Load(); ran != int64(sent) {
		return fmt.Errorf("%d calls were sent and the tool ran %d times: that is no measure of a call", sent, ran)
	}
	calls := float64(sent)
	r.LedgerBytes, r.LedgerUncompacted = float64(after.compacted-before.compacted)/calls, float64(after.used-before.used)/calls
	return nil
}
