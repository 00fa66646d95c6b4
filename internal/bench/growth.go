package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"tollgate/dedupe/bolt"
)

// smallLedger is how many settled calls the ledger has that a filled one is held
// against.
const smallLedger = 10_000

// measureStart opens the filled ledger alone: from the disk, then from the system's
// cache, with what each remembered call costs in memory.
func measureStart(path string, keys int, r *Report) error {
	if keys == 0 {
		return nil
	}
	if err := uncache(path); err != nil {
		return err
	}
	cold, _, err := timeOpen(path)
	if err != nil {
		return err
	}
	warm, heap, err := timeOpen(path)
	if err != nil {
		return err
	}
	r.LedgerColdS, r.LedgerWarmS, r.HeapPerKey = cold.Seconds(), warm.Seconds(), float64(heap)/float64(keys)
	return nil
}

// timeOpen opens a ledger and says what stays in memory of it.
func timeOpen(path string) (took time.Duration, heap int64, err error) {
	before := liveHeap()
	began := time.Now()
	l, err := bolt.Open(path, bolt.Options{Sync: time.Second, Retention: retention})
	if err != nil {
		return 0, 0, err
	}
	took = time.Since(began)
	heap = liveHeap() - before
	return took, heap, l.Close()
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// uncache takes a file out of the system's cache, where it can be.
func uncache(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), dropCache(f), f.Close())
}

// arm lets a dispatcher of its own publish the schedules of all waiting calls: at
// once, as no dispatcher does that was there when they failed.
func arm(ctx context.Context, o Options) error {
	p, err := startProduct(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(p.settleDown(ctx), p.close())
}

// startSmall starts a dispatcher on a small ledger, for rounds beside the filled one.
func startSmall(ctx context.Context, o Options) (*product, error) {
	o.Retained, o.PendingRetries, o.Dir = smallLedger, 0, filepath.Join(o.Dir, "small")
	if err := fill(ctx, filepath.Join(o.Dir, "ledger.db"), o); err != nil {
		return nil, fmt.Errorf("fill the small ledger: %w", err)
	}
	return startProduct(ctx, o)
}

// compare lets the filled and a small ledger take turns: what else the machine does
// slows both. It returns the small one's rate, and the median of the ratios.
func (p *product) compare(ctx context.Context) (rate, ratio float64, err error) {
	small, err := startSmall(ctx, p.o)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, small.close()) }()
	var rates, ratios []float64
	for n := range p.o.Rounds {
		p.o.Progress(fmt.Sprintf("against a small ledger, round %d of %d", n+1, p.o.Rounds))
		calm(ctx)
		few, err := small.round(ctx, n)
		if err != nil {
			return 0, 0, err
		}
		calm(ctx)
		many, err := p.round(ctx, p.o.Rounds+n)
		if err != nil {
			return 0, 0, err
		}
		rates, ratios = append(rates, float64(p.o.Calls)/few.Seconds()), append(ratios, few.Seconds()/many.Seconds())
	}
	return median(rates), median(ratios), nil
}
