package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/dedupe"
	"tollgate/schemas"
)

// Standings is the ledger as far as the states of letters go. Follow has its function
// called after every commit that changed records, before the change is answered, with
// the calls of them; nil stands for every call.
type Standings interface {
	Standing(call string) (dedupe.Standing, error)
	Follow(func(calls []string))
	Remarks() map[string]dedupe.Remark
}

// Index is what lists, groups and counts need of every letter, in memory. The stream
// says which letters there are and the ledger what has become of them; the index is
// a copy of both that is brought up to date by whoever looks: letters stored since
// are read, and the calls that the ledger named since are asked for again. So an
// answer is never older than its question, and looking costs what has changed.
type Index struct {
	// File is where a snapshot is kept between starts; "": nowhere. It is set before use.
	File string

	store   *Store
	ledger  Standings
	reading chan struct{} // holds a token while somebody brings the index up to date
	saved   struct {      // what the file has; of whoever holds the token
		read  uint64
		alive int
	}

	mu      sync.Mutex // guards the rest; never held across I/O
	created time.Time  // of the stream that was read
	read    uint64     // the highest sequence that was
	entries []*entry   // by sequence; only appended to: readers hold a part of it
	alive   int        // of entries: the others are gone from the stream
	fates   map[string]*fate
	stale   map[string]*fate               // to be asked for again
	last    map[unique.Handle[kind]]string // the last message of each kind: mostly the next has the same
}

// NewIndex returns the index of a store's letters and follows the ledger. Nothing is
// read before somebody looks.
func NewIndex(s *Store, l Standings) *Index {
	x := &Index{store: s, ledger: l, reading: make(chan struct{}, 1)}
	x.reset(time.Time{})
	s.index = x
	l.Follow(x.changed)
	return x
}

// letters returns every letter there is, oldest first, as the stream and the ledger
// say it now. Those that are gone in the meantime are marked.
func (x *Index) letters(ctx context.Context) ([]*entry, error) {
	leave, err := x.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := x.follow(ctx); err != nil {
		return nil, fmt.Errorf("read the dead letters: %w", err)
	}
	if err := x.ask(ctx); err != nil {
		return nil, fmt.Errorf("ask the ledger for the states of dead letters: %w", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[:len(x.entries):len(x.entries)], nil
}

// enter waits for the right to bring the index up to date.
func (x *Index) enter(ctx context.Context) (leave func(), err error) {
	select {
	case x.reading <- struct{}{}:
		return func() { <-x.reading }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (x *Index) reset(created time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.created, x.read, x.entries, x.alive = created, 0, nil, 0
	x.fates, x.stale, x.last = map[string]*fate{}, map[string]*fate{}, map[unique.Handle[kind]]string{}
}

// follow reads what the stream has and the index has not, and drops what somebody
// took out of the stream. A stream that was made again is read from its beginning.
func (x *Index) follow(ctx context.Context) error {
	st, err := x.store.js.Stream(ctx, x.store.stream)
	if err != nil {
		return err
	}
	info := st.CachedInfo()
	if x.created.IsZero() {
		x.restore(ctx, st)
	}
	if !info.Created.Equal(x.created) || info.State.LastSeq < x.read {
		x.reset(info.Created)
	}
	for range 3 { // it may change again while it is looked at
		if err := x.load(ctx, info.State.LastSeq); err != nil {
			return err
		}
		if uint64(x.count()) == info.State.Msgs {
			return nil
		}
		if info, err = st.Info(ctx, jetstream.WithDeletedDetails(true)); err != nil {
			return err
		}
		x.drop(info.State)
	}
	x.reset(info.Created)
	return x.load(ctx, info.State.LastSeq)
}

// load reads up to a sequence.
func (x *Index) load(ctx context.Context, last uint64) error {
	if last <= x.read {
		return nil
	}
	err := x.store.each(ctx, x.read+1, last, func(m *jetstream.RawStreamMsg) { x.add(x.store.brief(m)) })
	if err == nil {
		x.mu.Lock()
		x.read = last
		x.mu.Unlock()
	}
	return err
}

func (x *Index) add(l schemas.Letter) { x.insert(newEntry(&l), l.Call) }

// insert appends an entry of a call.
func (x *Index) insert(e *entry, call string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f := x.fates[call]
	if f == nil {
		f = &fate{call: strings.Clone(call)} // it is a part of the subject, or of a file
		x.fates[f.call], x.stale[f.call] = f, f
	}
	if same := x.last[e.kind]; same == e.message {
		e.message = same
	}
	x.last[e.kind] = e.message
	e.fate, e.older = f, f.newest
	f.newest = e
	x.entries = append(x.entries, e)
	x.alive++
	x.read = e.seq
}

func (x *Index) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.alive
}

// drop takes out what a stream has not any more.
func (x *Index) drop(s jetstream.StreamState) {
	gone := make(map[uint64]bool, len(s.Deleted))
	for _, seq := range s.Deleted {
		gone[seq] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		if e.seq < s.FirstSeq || gone[e.seq] {
			x.remove(e)
		}
	}
	x.compact()
}

// remove is called with mu held.
func (x *Index) remove(e *entry) {
	if e.gone.Swap(true) {
		return
	}
	x.alive--
	for at := &e.fate.newest; *at != nil; at = &(*at).older {
		if *at == e {
			*at = e.older
			break
		}
	}
	if e.fate.newest == nil {
		delete(x.fates, e.fate.call)
		delete(x.stale, e.fate.call)
	}
}

// compact is called with mu held. It makes a new slice when a good part of the old
// one is gone: readers may hold the old one.
func (x *Index) compact() {
	if len(x.entries)-x.alive > 1000+len(x.entries)/4 || x.alive == 0 {
		kept := make([]*entry, 0, x.alive)
		for _, e := range x.entries {
			if !e.gone.Load() {
				kept = append(kept, e)
			}
		}
		x.entries = kept
	}
}

// changed is told by the ledger.
func (x *Index) changed(calls []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if calls == nil {
		for call, f := range x.fates {
			x.stale[call] = f
		}
	}
	for _, call := range calls {
		if f := x.fates[call]; f != nil {
			x.stale[call] = f
		}
	}
}

// ask brings the fates up to date. A change that comes while one is read makes it
// stale again, for the next who looks.
func (x *Index) ask(ctx context.Context) error {
	x.mu.Lock()
	stale := x.stale
	x.stale = map[string]*fate{}
	x.mu.Unlock()
	for call, f := range stale {
		s, err := x.ledger.Standing(call)
		if err != nil && !errors.Is(err, dedupe.ErrNotFound) || ctx.Err() != nil {
			x.again(stale)
			return errors.Join(err, context.Cause(ctx))
		}
		f.standing.Store(&s)
		delete(stale, call)
	}
	return nil
}

func (x *Index) again(stale map[string]*fate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for call, f := range stale {
		x.stale[call] = f
	}
}

// sequence says where in the stream a letter was, if the index knows.
func (x *Index) sequence(call string, generation int) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	f := x.fates[call]
	if f == nil {
		return 0
	}
	for e := f.newest; e != nil; e = e.older {
		if e.generation == generation {
			return e.seq
		}
	}
	return 0
}

// take deletes letters from the stream and from the index, as one step for whoever
// looks. It returns how many went.
func (x *Index) take(ctx context.Context, seqs ...uint64) (int, error) {
	leave, err := x.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	st, err := x.store.handle(ctx)
	if err != nil {
		return 0, err
	}
	for i, seq := range seqs {
		if err := st.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return i, err
		}
		x.mu.Lock()
		if at, ok := slices.BinarySearchFunc(x.entries, seq, func(e *entry, seq uint64) int { return cmp.Compare(e.seq, seq) }); ok {
			x.remove(x.entries[at])
		}
		x.compact()
		x.mu.Unlock()
	}
	return len(seqs), nil
}
