package bolt

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// mapped is the address space reserved at least. A file that grows inside it
	// never has to be mapped again, which would wait for every open reader.
	mapped = 1 << 30
	// grow is by how much the file grows at a time.
	grow = 4 << 20
)

var (
	bucketMeta     = []byte("meta")
	bucketHot      = []byte("hot")
	bucketWaiting  = []byte("waiting")
	bucketTerminal = []byte("terminal")
	bucketOut      = []byte("out")
	bucketRuns     = []byte("runs")

	keyFormat  = []byte("format")
	keyID      = []byte("id")
	keyEpoch   = []byte("epoch")
	keyHorizon = []byte("horizon")
)

// format is the version of the file's layout.
const format = 2 // 1 had waiting calls in hot

func buckets() [][]byte {
	return [][]byte{bucketMeta, bucketHot, bucketWaiting, bucketTerminal, bucketOut, bucketRuns}
}

// ensure makes the file exist, or says what is wrong with it before bbolt, which
// would fill an empty file with an empty ledger, gets to see it.
func ensure(path string, o Options) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.Create:
		return create(path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("ledger %s does not exist: an empty one would run known calls again; restore a backup, or rebuild it with `tollgate serve --recover`: %w", path, err)
	case err != nil:
		return fmt.Errorf("ledger %s: %w", path, err)
	case info.IsDir():
		return fmt.Errorf("ledger %s is a directory: name a file in it", path)
	case info.Size() == 0:
		return damaged(path, errors.New("it is empty"))
	}
	return nil
}

// create writes a whole new ledger beside path and links it there, so that a crash
// never leaves half a file and two starting processes never share a name.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("ledger %s: %w", path, err)
	}
	tmp := path + "." + rand.Text()[:8] + ".new"
	defer os.Remove(tmp)
	db, err := bbolt.Open(tmp, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return fmt.Errorf("ledger %s: creating it: %w", path, err)
	}
	err = errors.Join(db.Update(initialise), db.Close())
	if err != nil {
		return fmt.Errorf("ledger %s: creating it: %w", path, err)
	}
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("ledger %s: creating it: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func initialise(tx *bbolt.Tx) error {
	for _, name := range buckets() {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(
		meta.Put(keyFormat, []byte{format}),
		meta.Put(keyID, []byte(strings.ToLower(rand.Text()))))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openFile opens the file under its lock; it is bbolt's to close. One that was replaced
// while this waited for its lock ([shrink]) is nobody's ledger any more: the one that has
// its name now is opened.
func openFile(path string, o Options) (*bbolt.DB, *os.File, error) {
	for {
		db, file, err := openLocked(path, o)
		if err != nil {
			return nil, nil, err
		}
		locked, err := file.Stat()
		named, err2 := os.Stat(path)
		if err = errors.Join(err, err2); err != nil {
			return nil, nil, fmt.Errorf("ledger %s: %w", path, errors.Join(err, db.Close()))
		}
		if os.SameFile(locked, named) {
			return db, file, nil
		}
		if err := db.Close(); err != nil {
			return nil, nil, fmt.Errorf("ledger %s: %w", path, err)
		}
	}
}

// openLocked is one try of it. bbolt panics on some damaged files; the panic becomes an
// error and the lock is released.
func openLocked(path string, o Options) (db *bbolt.DB, file *os.File, err error) {
	opened := false
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, damaged(path, fmt.Errorf("%v", p))
		}
		if !opened && file != nil {
			unlock(file)
			file.Close()
		}
	}()
	size := mapped
	if info, err := os.Stat(path); err == nil {
		size = max(size, int(info.Size())*2)
	}
	if o.maxSize > 0 {
		size = o.maxSize
	}
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: o.lockTimeout(), NoSync: o.Sync > 0, NoGrowSync: o.Sync > 0,
		FreelistType: bbolt.FreelistMapType, InitialMmapSize: size, MaxSize: o.maxSize,
		// Every commit would write the list of all free pages, megabytes of it once many calls
		// have been settled or have expired. Opening makes the list from the pages in use.
		NoFreelistSync: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
			if file == nil {
				file = f
			}
			return f, err
		},
	})
	if err != nil {
		return nil, file, openError(path, o, err) // file, for what is deferred
	}
	db.AllocSize = grow
	opened = true
	return db, file, nil
}

func openError(path string, o Options, err error) error {
	var system *fs.PathError
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("ledger %s is held by another process (waited %s): stop that one, or give this one a ledger of its own: %w", path, o.lockTimeout(), err)
	case errors.As(err, &system):
		return fmt.Errorf("ledger %s: %w", path, err)
	default:
		return damaged(path, err)
	}
}

func damaged(path string, err error) error {
	return fmt.Errorf("%w: %s: %w (it is kept as it is; restore a backup in its place, or move it away and rebuild with `tollgate serve --recover`)", ErrDamaged, path, err)
}

// checkWhole refuses a file that is shorter than what its meta page says is in use.
func checkWhole(tx *bbolt.Tx, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return damaged(path, fmt.Errorf("it has %d bytes of %d", info.Size(), tx.Size()))
	}
	return nil
}

// checkLayout reads the meta bucket and refuses a file this code cannot read.
func checkLayout(tx *bbolt.Tx, path string) error {
	if meta := tx.Bucket(bucketMeta); meta != nil {
		if f := meta.Get(keyFormat); len(f) != 1 || f[0] != format {
			return fmt.Errorf("ledger %s has format %v, this version reads %d: use the version that wrote it", path, f, format)
		}
	}
	for _, name := range buckets() {
		if tx.Bucket(name) == nil {
			return damaged(path, fmt.Errorf("bucket %q is missing", name))
		}
	}
	return nil
}

// begin raises the epoch, notes the horizon, and makes what earlier versions had not.
func (l *Ledger) begin(tx *bbolt.Tx) error {
	if err := openReplays(tx); err != nil {
		return err
	}
	meta := tx.Bucket(bucketMeta)
	l.id = string(meta.Get(keyID))
	l.epoch = number(meta.Get(keyEpoch)) + 1
	if !l.options.Horizon.IsZero() {
		l.horizon = l.options.Horizon.UTC()
		if err := meta.Put(keyHorizon, key(uint64(l.horizon.UnixNano()))); err != nil {
			return err
		}
	} else if n := number(meta.Get(keyHorizon)); n != 0 {
		l.horizon = time.Unix(0, int64(n)).UTC()
	}
	return meta.Put(keyEpoch, key(l.epoch))
}

// key writes a number so that bytes sort as numbers do.
func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// bucket returns a bucket or says that it is missing.
func bucket(tx *bbolt.Tx, name []byte) (*bbolt.Bucket, error) {
	b := tx.Bucket(name)
	if b == nil {
		return nil, fmt.Errorf("bucket %q is missing", name)
	}
	b.FillPercent = 0.5
	switch string(name) {
	case string(bucketWaiting), string(bucketTerminal), string(bucketOut):
		b.FillPercent = 1 // appended only: a full page is never split again
	}
	return b, nil
}
