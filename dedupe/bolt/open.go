package bolt

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// Ledger is the ledger on one file. It is safe for concurrent use.
type Ledger struct {
	options Options
	path    string
	db      *bbolt.DB
	file    *os.File // of db, which closes it
	id      string
	epoch   uint64
	horizon time.Time

	ops    chan *op      // unbuffered: an op that was not taken is certain not to run
	stop   chan struct{} // closed by Close
	done   chan struct{} // closed when the writer has ended
	closer sync.Once
	closed error // of the writer's last words; read after done

	mu        sync.Mutex // guards memory, merged and followers; never held across I/O
	memory    memory
	merged    chan struct{} // closed while no commit is under way
	followers followers

	// The writer's own.
	codec     *codec
	sweep     sweep
	room      int64     // where the part of the file ends that has been written once
	forgotten time.Time // when pages of the file were last forgotten
	stale     bool      // a failed commit may be in the file: read it again before the next
	unsynced  bool      // there are commits since the last sync; written under mu
}

// Open opens the ledger at path and raises its epoch. It reads every page in use: a file
// that is damaged there is refused with [ErrDamaged]. One that is free for the most part
// is made anew without that, under the same name.
func Open(path string, o Options) (*Ledger, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := ensure(path, o); err != nil {
		return nil, err
	}
	if err := inspect(path, o); err != nil {
		return nil, err
	}
	db, file, err := openFile(path, o)
	if err == nil {
		db, file, err = shrink(path, o, db, file)
	}
	if err != nil {
		return nil, err
	}
	l := &Ledger{options: o, path: path, db: db, file: file, codec: newCodec(),
		ops: make(chan *op), stop: make(chan struct{}), done: make(chan struct{}), merged: make(chan struct{})}
	close(l.merged)
	if err := l.guard(l.start); err != nil {
		_ = l.guard(db.Close)
		return nil, err
	}
	go l.write()
	return l, nil
}

// start reads the file into memory and begins a new epoch.
func (l *Ledger) start() error {
	if !l.options.Horizon.IsZero() { // rebuilding: what is missing starts empty
		if err := l.db.Update(repair); err != nil {
			return err
		}
	}
	l.readAll()
	err := l.load()
	l.readSome()
	l.forget()
	if err != nil {
		return err
	}
	if err := l.db.Update(l.begin); err != nil {
		return fmt.Errorf("ledger %s: raising the epoch: %w", l.path, err)
	}
	return nil
}

func repair(tx *bbolt.Tx) error {
	if tx.Bucket(bucketMeta) == nil {
		return initialise(tx)
	}
	for _, name := range buckets() {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// guard turns a panic of bbolt, or a fault of its memory map, into [ErrDamaged].
func (l *Ledger) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = damaged(l.path, fmt.Errorf("%v", p))
		}
	}()
	return f()
}

// view runs f in a read transaction.
func (l *Ledger) view(f func(tx *bbolt.Tx) error) error {
	return l.guard(func() error { return l.db.View(f) })
}

// ID names this ledger for as long as its file lives.
func (l *Ledger) ID() string { return l.id }

// Close commits what is still noted and closes the file. It waits for readers.
func (l *Ledger) Close() error {
	l.closer.Do(func() { close(l.stop) })
	<-l.done
	return l.closed
}
