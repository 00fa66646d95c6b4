package bolt

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"tollgate/budget"
	"tollgate/dedupe"
)

// page is how many entries a listing reads in one transaction: a slow reader holds
// none while it works.
const page = 64

// Records gives all records to f, newest first, until it returns false: the live
// ones, then the settled ones by falling sequence. With after above 0 it continues
// below that sequence. Live records have the highest sequence there is.
func (l *Ledger) Records(after uint64, f func(seq uint64, r *dedupe.Record) bool) error {
	if after == 0 {
		after = math.MaxUint64
		if more, err := l.recordsLive(f); err != nil || !more {
			return err
		}
	}
	for {
		records, seqs, err := l.recordsBelow(after)
		if err != nil || len(records) == 0 {
			return err
		}
		for i, r := range records {
			if !f(seqs[i], r) {
				return nil
			}
		}
		after = seqs[len(seqs)-1]
	}
}

// recordsLive gives the live records to f and reports whether it wants more. One that
// has settled since and is among the settled ones by now is left to them. One whose
// letter was published stays here, as the file has it, until a commit moves it.
func (l *Ledger) recordsLive(f func(uint64, *dedupe.Record) bool) (more bool, err error) {
	for _, call := range l.newest() {
		l.mu.Lock()
		r := l.memory.hot[call]
		l.mu.Unlock()
		var err error
		if r != nil {
			r = r.Clone()
		} else if r, err = l.Record(call); errors.Is(err, dedupe.ErrNotFound) || err == nil && settled(r) {
			continue
		}
		if err != nil {
			return false, err
		}
		if !f(math.MaxUint64, r) {
			return false, nil
		}
	}
	return true, nil
}

// newest lists the live calls by falling time of their publication.
func (l *Ledger) newest() []string {
	type live struct {
		call string
		at   int64
	}
	l.mu.Lock()
	all := make([]live, 0, len(l.memory.hot)+len(l.memory.parked))
	for call, r := range l.memory.hot {
		all = append(all, live{call, r.Published.UnixNano()})
	}
	for call, p := range l.memory.parked {
		all = append(all, live{call, p.published})
	}
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b live) int {
		return cmp.Or(cmp.Compare(b.at, a.at), strings.Compare(a.call, b.call))
	})
	calls := make([]string, len(all))
	for i, r := range all {
		calls[i] = r.call
	}
	return calls
}

// recordsBelow reads one page of terminal records.
func (l *Ledger) recordsBelow(after uint64) (records []*dedupe.Record, seqs []uint64, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		terminal, err := bucket(tx, bucketTerminal)
		if err != nil {
			return err
		}
		c := terminal.Cursor()
		k, v := c.Seek(key(after))
		if k == nil {
			k, v = c.Last()
		}
		for ; k != nil && len(records) < page; k, v = c.Prev() {
			if number(k) >= after {
				continue
			}
			r, err := l.codec.decode(v)
			if err != nil {
				return err
			}
			records, seqs = append(records, r), append(seqs, number(k))
		}
		return nil
	})
	return records, seqs, err
}

// Runs gives all runs to f, in the order of their keys, until it returns false.
func (l *Ledger) Runs(f func(*budget.Run) bool) error {
	var at []byte
	for {
		runs, next, err := l.runsFrom(at)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if !f(r) {
				return nil
			}
		}
		if at = next; at == nil {
			return nil
		}
	}
}

// runsFrom reads one page of runs and says where the next begins.
func (l *Ledger) runsFrom(at []byte) (runs []*budget.Run, next []byte, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		b, err := bucket(tx, bucketRuns)
		if err != nil {
			return err
		}
		c := b.Cursor()
		k, v := c.Seek(at)
		for ; k != nil && len(runs) < page; k, v = c.Next() {
			r, err := readRun(v)
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
		next = bytes.Clone(k)
		return nil
	})
	return runs, next, err
}
