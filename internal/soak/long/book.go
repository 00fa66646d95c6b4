package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"tollgate/schemas"
)

// book is what the outside has seen: every outcome that ever went by, by call and
// generation, and everything that was found wrong.
type book struct {
	mu       sync.Mutex        // guards below
	told     map[string]string // outcome IDs by call and generation
	open     map[string]*watch // calls that somebody waits for
	statuses map[schemas.Status]int
	ended    int
	faults   []string
	out      *os.File // where faults are written down at once
}

// watch is one call that an agent waits for.
type watch struct {
	last    *schemas.Outcome // of the highest generation seen
	changed chan struct{}
}

func newBook(out *os.File) *book {
	return &book{told: map[string]string{}, open: map[string]*watch{}, statuses: map[schemas.Status]int{}, out: out}
}

// fault writes down what is wrong. The run goes on: the first fault is not always
// the one that tells.
func (b *book) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	b.faults = append(b.faults, text)
	fmt.Fprintf(b.out, "%s FAULT %s\n", time.Now().UTC().Format(time.RFC3339), text)
}

func (b *book) found() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.faults...)
}

// watch begins to wait for a call.
func (b *book) watch(call string) *watch {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &watch{changed: make(chan struct{}, 1)}
	b.open[call] = w
	return w
}

func (b *book) forget(call string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, call)
}

// read notes an outcome as it was stored or went by. Only what is recorded counts: a
// refusal answers a message and no call.
func (b *book) read(data []byte) *schemas.Outcome {
	var o schemas.Outcome
	if err := json.Unmarshal(data, &o); err != nil {
		b.fault("an outcome cannot be read: %v: %.200s", err, data)
		return nil
	}
	if o.Status != schemas.Rejected {
		b.note(&o)
	}
	return &o
}

func (b *book) note(o *schemas.Outcome) {
	key := fmt.Sprintf("%s.%d", o.Call, o.Generation)
	b.mu.Lock()
	before, again := b.told[key]
	if !again {
		b.told[key] = o.ID
		b.statuses[o.Status]++
		b.ended++
	}
	if w := b.open[o.Call]; w != nil && (w.last == nil || o.Generation >= w.last.Generation) {
		w.last = o
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	b.mu.Unlock()
	if again && before != o.ID {
		b.fault("I1: call %s (%s, %s) ended twice in one generation: %s and %s", key, o.Tool, o.Run, before, o.ID)
	}
}

// at is the outcome of a watched call, if it has one of that generation or a later.
func (b *book) at(w *watch, generation int) *schemas.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.last == nil || w.last.Generation < generation {
		return nil
	}
	return w.last
}

func (b *book) counts() (ended int, byStatus map[schemas.Status]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended, maps.Clone(b.statuses)
}
