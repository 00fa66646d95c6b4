package bolt

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"tollgate/dedupe"
)

// commit runs the queued changes in one transaction, makes it durable, and answers
// all of them. At most expire records are expired on the way.
func (l *Ledger) commit(ops []*op, expire int) error {
	started := time.Now()
	l.mu.Lock()
	l.merged = make(chan struct{})
	l.mu.Unlock()
	var b *batch
	reloaded := false
	err := l.guard(func() error {
		if l.stale {
			if err := l.load(); err != nil {
				return err
			}
			reloaded = true
		}
		return l.transact(func(tx *bbolt.Tx) error {
			b = l.newBatch(tx)
			if err := b.fill(ops, expire); err != nil || !b.unchanged() {
				return err
			}
			return errUnchanged
		})
	})
	l.mu.Lock()
	switch {
	case errors.Is(err, errUnchanged): // nothing to make durable, and no sync to wait for
		err = nil
	case err == nil:
		b.merge(&l.memory)
		l.unsynced = true
		l.memory.stats.Commits++
		l.memory.stats.CommitError = nil
		l.memory.stats.took(time.Since(started))
	default:
		b.restore(&l.memory)
		l.memory.stats.FailedCommits++
		l.memory.stats.CommitError = err
	}
	close(l.merged)
	followers := l.followers
	l.mu.Unlock()
	if err == nil || reloaded { // before anybody is answered: who asks then must not be told the past
		followers.tell(b, reloaded)
	}
	if err != nil {
		err = fmt.Errorf("%w: ledger %s: %w", dedupe.ErrUnavailable, l.path, err)
	}
	for _, o := range ops {
		if err != nil {
			o.receipt, o.err = dedupe.Receipt{}, err
		}
		close(o.done)
	}
	return err
}

// transact commits f. When the commit fails and the file nevertheless shows it
// (its last sync failed), memory no longer mirrors the file and is read again.
func (l *Ledger) transact(f func(*bbolt.Tx) error) error {
	tx, err := l.db.Begin(true)
	if err != nil {
		return err
	}
	defer tx.Rollback() // also after a panic; nothing after a commit
	if err := f(tx); err != nil {
		return err
	}
	l.makeRoom(tx)
	commit := tx.Commit
	if around := l.options.Commit; around != nil {
		commit = func() error { return around(tx.Commit) }
	}
	id := tx.ID()
	if err := commit(); err != nil {
		shown := l.db.View(func(tx *bbolt.Tx) error {
			l.stale = tx.ID() >= id
			return nil
		})
		return errors.Join(err, shown)
	}
	return nil
}

// errUnchanged ends a transaction whose changes changed nothing.
var errUnchanged = errors.New("unchanged")

func (b *batch) unchanged() bool {
	if b.touched || len(b.out)+len(b.gone)+len(b.pauses)+len(b.remarks)+len(b.moved)+len(b.dropped) > 0 {
		return false
	}
	for _, s := range b.records {
		if s.value != nil {
			return false
		}
	}
	return !b.changesRuns()
}

// fill runs the changes and writes what they staged.
func (b *batch) fill(ops []*op, expire int) error {
	for _, o := range ops {
		o.receipt, o.err = o.apply(b)
	}
	if b.broken != nil {
		return b.broken
	}
	if err := b.loadNoted(); err != nil {
		return err
	}
	for _, write := range []func() error{b.writeRecords, b.writeRuns, b.writeOut, b.writePauses, b.writeRemarks} {
		if err := write(); err != nil {
			return err
		}
	}
	if expire > 0 {
		b.clean(expire)
	}
	return nil
}

// loadNoted stages every record whose slot was published, changed or not.
func (b *batch) loadNoted() error {
	b.l.mu.Lock()
	var calls []string
	for call := range b.l.memory.notes {
		calls = append(calls, call)
	}
	b.l.mu.Unlock()
	for _, call := range calls {
		if _, staged := b.records[call]; staged {
			continue // noted after it was loaded: merge applies it, the next commit writes it
		}
		if _, err := b.load(call); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) writeRecords() error {
	places, err := openPlaces(b.tx)
	if err != nil {
		return err
	}
	for _, call := range b.order {
		if s := b.records[call]; s.value != nil {
			if err := s.write(places); err != nil {
				return fmt.Errorf("record of call %s: %w", call, err)
			}
		}
	}
	return nil
}

// settled reports whether a record belongs to the terminal bucket.
func settled(r *dedupe.Record) bool { return r.State.Terminal() && r.Slot == 0 }

func (b *batch) writeRuns() error {
	if !b.changesRuns() {
		return nil
	}
	runs, err := bucket(b.tx, bucketRuns)
	if err != nil {
		return err
	}
	for k, s := range b.runs {
		if !s.changed {
			continue
		}
		v, err := versioned(s.run)
		if err == nil {
			err = runs.Put([]byte(k), v)
		}
		if err != nil {
			return fmt.Errorf("run %s: %w", k, err)
		}
	}
	return nil
}

func (b *batch) changesRuns() bool {
	for _, s := range b.runs {
		if s.changed {
			return true
		}
	}
	return false
}

func (b *batch) writeOut() error {
	if len(b.out) == 0 && len(b.gone) == 0 {
		return nil
	}
	out, err := bucket(b.tx, bucketOut)
	if err != nil {
		return err
	}
	for _, o := range b.out {
		if err := out.Put(key(o.number), o.value); err != nil {
			return err
		}
	}
	for _, g := range b.gone {
		n := g.number
		if err := out.Delete(key(n)); err != nil {
			return err
		}
	}
	if len(b.out) == 0 {
		return nil
	}
	return out.SetSequence(b.last)
}
