package dispatcher

import (
	"slices"
	"sync"

	"tollgate/schemas"
)

// waiters are those in this process who wait for a call's outcome.
type waiters struct {
	mu     sync.Mutex // guards byCall
	byCall map[string][]chan *schemas.Outcome
}

// join returns a channel that gets the call's next outcome, and how to leave.
func (w *waiters) join(call string) (<-chan *schemas.Outcome, func()) {
	ch := make(chan *schemas.Outcome, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byCall[call] = append(w.byCall[call], ch)
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		left := slices.DeleteFunc(w.byCall[call], func(c chan *schemas.Outcome) bool { return c == ch })
		if len(left) == 0 {
			delete(w.byCall, call)
		} else {
			w.byCall[call] = left
		}
	}
}

// tell gives an outcome to everybody who waits for it.
func (w *waiters) tell(o *schemas.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range w.byCall[o.Call] {
		select {
		case ch <- o:
		default: // it already has one
		}
	}
}
