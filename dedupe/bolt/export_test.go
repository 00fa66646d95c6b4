package bolt

import (
	"os"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"tollgate/dedupe"
)

// Faulty is a ledger whose commits can be made to fail.
type Faulty struct {
	*Ledger
	err atomic.Pointer[error]
}

// OpenFaulty opens a ledger whose commits can be made to fail.
func OpenFaulty(path string, o Options) (*Faulty, error) {
	f := &Faulty{}
	o.Commit = func(commit func() error) error {
		if err := f.err.Load(); err != nil {
			return *err
		}
		return commit()
	}
	var err error
	f.Ledger, err = Open(path, o)
	return f, err
}

// FailCommits makes every commit fail with err; nil ends it.
func (f *Faulty) FailCommits(err error) {
	if err == nil {
		f.err.Store(nil)
		return
	}
	f.err.Store(&err)
}

// Commits counts the commits that succeeded.
func (f *Faulty) Commits() uint64 { return f.Stats().Commits }

// WithMaxSize bounds the file.
func WithMaxSize(o Options, bytes int) Options { o.maxSize = bytes; return o }

// ShrinkingAt has a file of so many bytes shrunk.
func ShrinkingAt(o Options, bytes int64) Options { o.shrinkAt = bytes; return o }

// OpenFile opens the file and returns it; closing it is closing db.
func OpenFile(path string, o Options) (db *bbolt.DB, file *os.File, err error) {
	return openFile(path, o)
}

// DropBucket deletes a bucket behind the ledger's back.
func (l *Ledger) DropBucket(name string) error {
	return l.db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(name)) })
}

// StoredSize is how many bytes a record takes in the file.
func StoredSize(r *dedupe.Record) (int, error) {
	v, err := newCodec().record(r)
	return len(v), err
}

// RoundTrip encodes and decodes a record.
func RoundTrip(r *dedupe.Record) (*dedupe.Record, error) {
	v, err := newCodec().record(r)
	if err != nil {
		return nil, err
	}
	return newCodec().decode(v)
}

// DecodeRecord decodes stored bytes.
func DecodeRecord(v []byte) (*dedupe.Record, error) { return newCodec().decode(v) }

// Index is the index of terminal records.
type Index = index

// NewIndex returns an empty index.
func NewIndex() *Index { x := newIndex(); return &x }

// Add, Remove and Candidates are the index's own.
func (x *index) Add(call string, seq uint64)       { x.add(call, seq) }
func (x *index) Remove(call string, seq uint64)    { x.remove(call, seq) }
func (x *index) Candidates(call string) []uint64   { return x.candidates(call) }
func (x *index) Prefixed(p string, n int) []uint64 { return x.prefixed(p, n) }
func (x *index) Count() int                        { return x.count }

// PageBytes is how much was allocated for pages to be written, ever.
func (l *Ledger) PageBytes() int64 { s := l.db.Stats().TxStats; return s.GetPageAlloc() }

// Unsynced reports whether there are commits since the last sync.
func (l *Ledger) Unsynced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsynced
}

// NewEncoder returns an encoder, and Record is its own.
func NewEncoder() *codec                                 { return newCodec() }
func (e *codec) Record(r *dedupe.Record) ([]byte, error) { return e.record(r) }

// Body is a record's body before it is compressed.
func Body(r *dedupe.Record) ([]byte, error) {
	w := writer{}
	w.record(r)
	return w.out, w.err
}

// HalfAReplay stores a bulk replay as a process leaves it that dies while making it.
func (l *Ledger) HalfAReplay(name string) error {
	return l.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.Bucket(bucketReplays).CreateBucket([]byte(name))
		if err != nil {
			return err
		}
		return b.Put(itemKey(0), []byte{recordVersion})
	})
}
