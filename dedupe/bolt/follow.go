package bolt

// followers are told of the calls whose records a commit has changed, in the writer's
// own turn: they note it and return.
type followers []func(calls []string)

// Follow has f called after every commit that changed records, before whoever asked
// for the change is answered, with their calls. nil means that any record may have
// changed: memory was read from the file again.
func (l *Ledger) Follow(f func(calls []string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers = append(l.followers[:len(l.followers):len(l.followers)], f) // the writer may hold the old one
}

func (fs followers) tell(b *batch, reloaded bool) {
	if len(fs) == 0 {
		return
	}
	var calls []string
	if !reloaded {
		if calls = b.changed(); len(calls) == 0 {
			return
		}
	}
	for _, f := range fs {
		f(calls)
	}
}

// changed lists the calls whose records were written or have expired.
func (b *batch) changed() []string {
	var calls []string
	for _, call := range b.order {
		if b.records[call].value != nil {
			calls = append(calls, call)
		}
	}
	for _, m := range b.moved {
		if m.newSeq == 0 {
			calls = append(calls, m.call)
		}
	}
	return calls
}
