package bolt

import (
	"fmt"

	"go.etcd.io/bbolt"

	"tollgate/budget"
	"tollgate/dedupe"
)

// load brings a call into the overlay: from memory when it is there, else from the
// file. A slot published since the last commit is written with this one.
func (b *batch) load(call string) (*staged, error) {
	if s, ok := b.records[call]; ok {
		return s, nil
	}
	s := &staged{}
	b.l.mu.Lock()
	s.record = b.l.memory.hot[call]
	note, noted := b.l.memory.notes[call]
	if noted {
		delete(b.l.memory.notes, call)
		b.notes[call] = note
	}
	name, where := b.l.memory.appended(call)
	b.l.mu.Unlock()
	if s.record == nil {
		if err := s.find(b.tx, b.l.codec, call, name, where); err != nil {
			return nil, unavailable(err)
		}
	}
	if s.record != nil {
		if s.in = inHot; s.seq != 0 {
			s.in = placeOf(s.record)
		}
		if s.in != inTerminal || pinned(s.record) {
			s.held = runOf(s.record)
		}
	}
	if noted {
		value, err := b.l.codec.record(s.record)
		if err != nil {
			return nil, refused(err)
		}
		s.value = value
	}
	b.records[call] = s
	b.order = append(b.order, call)
	return s, nil
}

// find reads an appended record. An index entry may belong to another call, but a
// parked record is there or lost.
func (s *staged) find(tx *bbolt.Tx, c *codec, call string, name []byte, where []uint64) error {
	if len(where) == 0 {
		return nil
	}
	b, err := bucket(tx, name)
	if err != nil {
		return err
	}
	if s.record, s.seq, err = c.lookup(b, call, where); err == nil && s.record == nil && string(name) == string(bucketWaiting) {
		err = fmt.Errorf("%w: the record of waiting call %s is gone", ErrDamaged, call)
	}
	return err
}

// lookup returns the record of call among the given sequences, or nil.
func (e *codec) lookup(b *bbolt.Bucket, call string, where []uint64) (*dedupe.Record, uint64, error) {
	v, seq, err := value(b, call, where)
	if err != nil || v == nil {
		return nil, 0, err
	}
	r, err := e.decode(v)
	return r, seq, err
}

// value returns the stored bytes of call among the given sequences, or nil. They are
// the transaction's.
func value(b *bbolt.Bucket, call string, where []uint64) ([]byte, uint64, error) {
	for _, seq := range where {
		v := b.Get(key(seq))
		if v == nil {
			continue
		}
		h, err := readHead(v)
		if err != nil {
			return nil, 0, err
		}
		if h.call == call {
			return v, seq, nil
		}
	}
	return nil, 0, nil
}

// loadRun brings a run into the overlay.
func (b *batch) loadRun(owner string) (*stagedRun, error) {
	if s, ok := b.runs[owner]; ok {
		return s, nil
	}
	b.l.mu.Lock()
	s := &stagedRun{run: b.l.memory.runs[owner]}
	b.l.mu.Unlock()
	if s.run == nil {
		runs, err := bucket(b.tx, bucketRuns)
		if err != nil {
			return nil, unavailable(err)
		}
		if s.run, err = readRun(runs.Get([]byte(owner))); err != nil {
			return nil, unavailable(err)
		}
	}
	s.known = s.run != nil
	b.runs[owner] = s
	return s, nil
}

func readRun(v []byte) (*budget.Run, error) {
	if v == nil {
		return nil, nil
	}
	var r budget.Run
	if err := readVersioned(v, &r); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return &r, nil
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", dedupe.ErrUnavailable, err) }
