package bolt

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"tollgate/dedupe"
)

const (
	// maxBatch bounds the changes of one commit.
	maxBatch = 256
	// tick is how often an idle ledger writes what rides on commits, syncs and expires.
	tick = time.Second
	// hurry is the next tick when the last one left work.
	hurry = 10 * time.Millisecond
)

// op is one change on its way through the writer.
type op struct {
	apply   func(*batch) (dedupe.Receipt, error)
	receipt dedupe.Receipt
	err     error
	done    chan struct{}
}

// Update runs m inside the commit and returns when that is durable. An error wraps
// [dedupe.ErrUnavailable] and means that nothing was committed.
func (l *Ledger) Update(ctx context.Context, ref dedupe.Ref, m dedupe.Mutation) (dedupe.Receipt, error) {
	return l.do(ctx, func(b *batch) (dedupe.Receipt, error) { return b.mutate(ref, m) })
}

// do hands a change to the writer and waits. Once the writer took it, ctx no longer
// counts: the caller must learn what was committed.
func (l *Ledger) do(ctx context.Context, apply func(*batch) (dedupe.Receipt, error)) (dedupe.Receipt, error) {
	if ctx.Err() != nil {
		return dedupe.Receipt{}, fmt.Errorf("%w: %w", dedupe.ErrUnavailable, context.Cause(ctx))
	}
	o := &op{apply: apply, done: make(chan struct{})}
	select {
	case l.ops <- o:
		<-o.done
		return o.receipt, o.err
	case <-ctx.Done():
		return dedupe.Receipt{}, fmt.Errorf("%w: %w", dedupe.ErrUnavailable, context.Cause(ctx))
	case <-l.stop:
		return dedupe.Receipt{}, errClosed
	}
}

var errClosed = fmt.Errorf("%w: the ledger is closed", dedupe.ErrUnavailable)

// write is the writer: the only goroutine that changes the file or memory, save
// for [Ledger.Published].
func (l *Ledger) write() {
	defer close(l.done)
	debug.SetPanicOnFault(true)
	timer := time.NewTimer(l.wait(tick))
	defer timer.Stop()
	synced := time.Now()
	g := gatherer{ops: l.ops}
	for {
		select {
		case o := <-l.ops:
			ops := g.take(o)
			began := time.Now()
			l.commit(ops, riding)
			g.before, g.took = len(ops), time.Since(began)
			l.forgetNowAndThen(began)
		case <-timer.C:
			timer.Reset(l.idle())
		case <-l.stop:
			l.closed = l.finish()
			return
		}
		if l.options.Sync > 0 && l.unsynced && time.Since(synced) >= l.options.Sync {
			synced = time.Now()
			l.sync()
		}
	}
}

// idle does what no change came along to carry, and says when to look again.
func (l *Ledger) idle() time.Duration {
	l.planSweep(time.Now())
	if !l.stale && !l.dirty() && len(l.sweep.runs) == 0 && !l.due(time.Now()) {
		return l.wait(tick)
	}
	if err := l.commit(nil, alone); err == nil && (l.sweep.more || l.due(time.Now())) {
		return hurry
	}
	return l.wait(tick)
}

// wait is the time to the next tick; syncs more often than that need one.
func (l *Ledger) wait(d time.Duration) time.Duration {
	if l.options.Sync > 0 {
		return min(d, l.options.Sync)
	}
	return d
}

// dirty reports whether publications are noted that the file does not know.
func (l *Ledger) dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.memory.notes) > 0 || len(l.memory.owed.leave(l.options.KeepPublished, time.Now())) > 0
}

func (l *Ledger) finish() error {
	var err error
	if l.dirty() {
		err = l.commit(nil, 0)
	}
	if l.options.Sync > 0 {
		err = errors.Join(err, l.db.Sync())
	}
	if err = errors.Join(err, l.guard(l.db.Close)); err != nil {
		return fmt.Errorf("closing ledger %s: %w", l.path, err)
	}
	return nil
}

// sync makes the commits since the last sync durable; one that failed is tried again.
func (l *Ledger) sync() {
	err := l.db.Sync()
	l.count(func(s *Stats) { s.SyncError = err; l.unsynced = err != nil })
}
