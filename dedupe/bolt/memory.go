package bolt

import (
	"strings"

	"go.etcd.io/bbolt"

	"tollgate/budget"
	"tollgate/dedupe"
)

// maxRuns bounds the runs kept decoded.
const maxRuns = 4096

// memory is what the file says, as far as every call needs it. What it points at
// is never changed in place: readers and views copy it.
type memory struct {
	hot      map[string]*dedupe.Record // live records that are needed at any moment
	parked   map[string]parked         // the other live ones
	terminal index
	held     map[string]*holder // by run key: live records, and settled ones whose letter is live
	runs     map[string]*budget.Run
	runCount int
	owed     owed
	pauses   map[string]dedupe.Pause
	remarks  map[string]dedupe.Remark
	notes    map[string]dedupe.Publication // slots published since the last commit, by call
	stats    Stats
	read     uint64 // how often all this was read from the file
}

func newMemory() memory {
	return memory{hot: map[string]*dedupe.Record{}, parked: map[string]parked{}, terminal: newIndex(),
		held: map[string]*holder{}, runs: map[string]*budget.Run{}, owed: newOwed(), pauses: map[string]dedupe.Pause{}, remarks: map[string]dedupe.Remark{},
		notes: map[string]dedupe.Publication{}}
}

func runKey(tenant, root string) string { return tenant + "/" + root }

// keepRun remembers a run, at the expense of some other when there are too many.
func (m *memory) keepRun(key string, r *budget.Run) {
	for k := range m.runs {
		if len(m.runs) < maxRuns {
			break
		}
		delete(m.runs, k)
	}
	m.runs[key] = r
}

// load reads the file into memory: all keys, live records and what is owed.
// Damage in a live record is met here and not when its call is due.
func (l *Ledger) load() error {
	m := newMemory()
	err := l.view(func(tx *bbolt.Tx) error {
		if err := checkWhole(tx, l.path); err != nil {
			return err
		}
		if err := checkLayout(tx, l.path); err != nil {
			return err
		}
		for _, read := range []func(*bbolt.Tx) error{func(tx *bbolt.Tx) error { return m.loadLive(tx, l.codec) }, m.loadTerminal, m.loadOut, m.loadRuns, m.loadMeta} {
			if err := read(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m.inherit(&l.memory)
	m.read = l.memory.read + 1
	l.memory = m
	l.stale = false
	return nil
}

// inherit keeps what was published and is not in the file yet.
func (m *memory) inherit(old *memory) {
	m.stats, m.owed.kept = old.stats, old.owed.kept
	for _, g := range old.owed.gone {
		n := g.number
		m.owed.published(n)
	}
	for call, p := range old.notes {
		if r := m.hot[call]; r != nil && owes(r, p) {
			m.hot[call] = paid(r)
			m.notes[call] = p
		}
	}
}

func (m *memory) loadLive(tx *bbolt.Tx, c *codec) error {
	for _, name := range [][]byte{bucketHot, bucketWaiting} {
		err := tx.Bucket(name).ForEach(func(k, v []byte) error {
			r, err := c.decode(v)
			if err == nil {
				m.keepLive(r, number(k))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) loadTerminal(tx *bbolt.Tx) error {
	return tx.Bucket(bucketTerminal).ForEach(func(k, v []byte) error {
		h, err := readHead(v)
		if err != nil {
			return err
		}
		m.terminal.add(h.call, number(k))
		if h.pinned {
			m.hold(h.run)
		}
		return nil
	})
}

func (m *memory) loadOut(tx *bbolt.Tx) error {
	b := tx.Bucket(bucketOut)
	m.owed.last = b.Sequence()
	return b.ForEach(func(k, v []byte) error {
		var e entry
		if err := readVersioned(v, &e); err != nil {
			return err
		}
		m.owed.add(number(k), e)
		return nil
	})
}

func (m *memory) loadRuns(tx *bbolt.Tx) error {
	return tx.Bucket(bucketRuns).ForEach(func(_, v []byte) error {
		m.runCount++
		if len(v) == 0 || v[0] != recordVersion {
			return readVersioned(v, nil)
		}
		return nil
	})
}

const pausePrefix = "pause/"

func (m *memory) loadMeta(tx *bbolt.Tx) error {
	return tx.Bucket(bucketMeta).ForEach(func(k, v []byte) error {
		if tool, ok := strings.CutPrefix(string(k), pausePrefix); ok {
			var p dedupe.Pause
			err := readVersioned(v, &p)
			m.pauses[tool] = p
			return err
		}
		if group, ok := strings.CutPrefix(string(k), remarkPrefix); ok {
			var r dedupe.Remark
			err := readVersioned(v, &r)
			m.remarks[group] = r
			return err
		}
		return nil
	})
}

// unpublished reports whether something of the record is not out yet.
func (m *memory) unpublished(r *dedupe.Record) bool {
	return r.Slot != 0 || m.owed.has(r.Result)
}
