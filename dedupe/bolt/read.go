package bolt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"tollgate/budget"
	"tollgate/dedupe"
)

// readTries bounds how often a look-up follows a record that is being moved.
const readTries = 4

// Record returns a copy of a call's record, or [dedupe.ErrNotFound].
func (l *Ledger) Record(call string) (*dedupe.Record, error) {
	for range readTries {
		l.mu.Lock()
		r := l.memory.hot[call]
		name, where := l.memory.appended(call)
		merged := l.merged
		l.mu.Unlock()
		if r != nil {
			return r.Clone(), nil
		}
		if len(where) == 0 {
			return nil, fmt.Errorf("call %s is %w", call, dedupe.ErrNotFound)
		}
		r, err := l.storedRecord(call, name, where)
		if r != nil || err != nil {
			return r, err
		}
		// The commit under way has moved it, and memory does not say so yet.
		<-merged
	}
	return l.follow(call)
}

// follow reads a record that moves with every commit: in the writer's own turn,
// when it stands still.
func (l *Ledger) follow(call string) (r *dedupe.Record, err error) {
	_, err = l.do(context.Background(), func(b *batch) (dedupe.Receipt, error) {
		s, err := b.load(call)
		if err == nil && s.record != nil {
			r = s.record.Clone()
		}
		return dedupe.Receipt{}, err
	})
	if err == nil && r == nil {
		err = fmt.Errorf("call %s is %w", call, dedupe.ErrNotFound)
	}
	return r, err
}

func (l *Ledger) storedRecord(call string, name []byte, where []uint64) (r *dedupe.Record, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		b, err := bucket(tx, name)
		if err == nil {
			r, _, err = l.codec.lookup(b, call, where)
		}
		return err
	})
	return r, err
}

// Run returns a copy of a run, or [dedupe.ErrNotFound].
func (l *Ledger) Run(tenant, root string) (*budget.Run, error) {
	k := runKey(tenant, root)
	l.mu.Lock()
	r := l.memory.runs[k]
	l.mu.Unlock()
	if r != nil {
		return r.Clone(), nil
	}
	err := l.view(func(tx *bbolt.Tx) error {
		runs, err := bucket(tx, bucketRuns)
		if err == nil {
			r, err = readRun(runs.Get([]byte(k)))
		}
		return err
	})
	if err == nil && r == nil {
		err = fmt.Errorf("run %s of tenant %s is %w", root, tenant, dedupe.ErrNotFound)
	}
	return r, err
}

// maxResolved bounds the answers of [Ledger.Resolve].
const maxResolved = 8

// Resolve lists call IDs that begin with prefix, a few at most: one is an answer,
// several are an ambiguous abbreviation.
func (l *Ledger) Resolve(prefix string) ([]string, error) {
	l.mu.Lock()
	var calls []string
	for call := range l.memory.hot {
		if strings.HasPrefix(call, prefix) && len(calls) < maxResolved {
			calls = append(calls, call)
		}
	}
	for call := range l.memory.parked {
		if strings.HasPrefix(call, prefix) && len(calls) < 2*maxResolved {
			calls = append(calls, call)
		}
	}
	where := l.memory.terminal.prefixed(prefix, maxResolved)
	l.mu.Unlock()
	err := l.view(func(tx *bbolt.Tx) error {
		terminal, err := bucket(tx, bucketTerminal)
		if err != nil {
			return err
		}
		for _, seq := range where {
			v := terminal.Get(key(seq))
			if v == nil {
				continue
			}
			h, err := readHead(v)
			if err != nil {
				return err
			}
			if strings.HasPrefix(h.call, prefix) {
				calls = append(calls, h.call)
			}
		}
		return nil
	})
	slices.Sort(calls)
	calls = slices.Compact(calls)
	return calls[:min(len(calls), maxResolved)], err
}
