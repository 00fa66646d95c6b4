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
	_, asleep := b.l.memory.parked[call]
	where := b.l.memory.terminal.candidates(call)
	b.l.mu.Unlock()
	var err error
	switch s.hot = s.record != nil || asleep; {
	case asleep:
		s.record, err = b.l.codec.hotRecord(b.tx, call)
	case !s.hot:
		err = s.find(b.tx, b.l.codec, call, where)
	}
	if err == nil && s.hot && s.record == nil {
		err = fmt.Errorf("%w: the record of waiting call %s is gone", ErrDamaged, call)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	if s.record != nil && (s.hot || pinned(s.record)) {
		s.held = runOf(s.record)
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

// find reads a terminal record. An index entry may belong to another call.
func (s *staged) find(tx *bbolt.Tx, c *codec, call string, where []uint64) error {
	if len(where) == 0 {
		return nil
	}
	terminal, err := bucket(tx, bucketTerminal)
	if err != nil {
		return err
	}
	r, seq, err := c.lookup(terminal, call, where)
	if err != nil || r == nil {
		return err
	}
	s.record, s.seq = r, seq
	return nil
}

// lookup returns the record of call among the given sequences, or nil.
func (e *codec) lookup(terminal *bbolt.Bucket, call string, where []uint64) (*dedupe.Record, uint64, error) {
	for _, seq := range where {
		v := terminal.Get(key(seq))
		if v == nil {
			continue
		}
		h, err := readHead(v)
		if err != nil {
			return nil, 0, err
		}
		if h.call != call {
			continue
		}
		r, err := e.decode(v)
		return r, seq, err
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
