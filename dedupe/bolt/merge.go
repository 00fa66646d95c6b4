package bolt

// merge takes a committed batch into memory.
func (b *batch) merge(m *memory) {
	for _, call := range b.order {
		s := b.records[call]
		if s.value == nil {
			continue
		}
		s.merge(m)
		// What was published while the commit was under way is not in its record.
		if p, ok := m.notes[call]; ok && owes(s.record, p) {
			m.hot[call] = paid(s.record)
		} else {
			delete(m.notes, call)
		}
	}
	for k, s := range b.runs {
		if s.changed && !s.known {
			m.runCount++
		}
		if s.run != nil {
			m.keepRun(k, s.run)
		}
	}
	for _, o := range b.out {
		m.owed.add(o.number, o.entry)
	}
	m.owed.last = b.last
	m.owed.gone = m.owed.gone[len(b.gone):]
	keep(m.pauses, b.pauses)
	keep(m.remarks, b.remarks)
	b.mergeExpiry(m)
}

func (s *staged) merge(m *memory) {
	call := s.record.Call
	if s.in == inTerminal {
		m.terminal.remove(call, s.seq)
	}
	if s.held != "" {
		m.release(s.held)
	}
	delete(m.hot, call)
	delete(m.parked, call)
	if !settled(s.record) {
		m.keepLive(s.record, s.newSeq)
		return
	}
	m.terminal.add(call, s.newSeq)
	if pinned(s.record) {
		m.hold(runOf(s.record))
	}
}

// restore gives back what a failed batch had taken from memory.
func (b *batch) restore(m *memory) {
	if b == nil {
		return
	}
	for call, p := range b.notes {
		if _, newer := m.notes[call]; !newer {
			m.notes[call] = p
		}
	}
}
