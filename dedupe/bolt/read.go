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
	return find(l, call, (*dedupe.Record).Clone, l.codec.decode)
}

// Standing returns where a call stands, or [dedupe.ErrNotFound]. It costs a fraction
// of [Ledger.Record].
func (l *Ledger) Standing(call string) (dedupe.Standing, error) {
	s, err := find(l, call, func(r *dedupe.Record) *dedupe.Standing {
		s := r.Standing()
		return &s
	}, l.codec.standing)
	if err != nil {
		return dedupe.Standing{}, err
	}
	return *s, nil
}

// find looks a call up and makes what is asked of a record in memory, or of the bytes
// of one in the file.
func find[T any](l *Ledger, call string, held func(*dedupe.Record) *T, stored func([]byte) (*T, error)) (*T, error) {
	for range readTries {
		l.mu.Lock()
		r := l.memory.hot[call]
		name, where := l.memory.appended(call)
		merged := l.merged
		l.mu.Unlock()
		if r != nil {
			return held(r), nil
		}
		if len(where) == 0 {
			return nil, fmt.Errorf("call %s is %w", call, dedupe.ErrNotFound)
		}
		var found *T
		err := l.view(func(tx *bbolt.Tx) error {
			b, err := bucket(tx, name)
			if err != nil {
				return err
			}
			v, _, err := value(b, call, where)
			if err == nil && v != nil {
				found, err = stored(v)
			}
			return err
		})
		if found != nil || err != nil {
			return found, err
		}
		// The commit under way has moved it, and memory does not say so yet.
		<-merged
	}
	r, err := l.follow(call)
	if err != nil {
		return nil, err
	}
	return held(r), nil
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
