package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"unsafe"

	"go.etcd.io/bbolt"
)

// inspect reads every page that is in use, here, where a panic of bbolt and a fault of its
// memory map become an error. bbolt reads them too when it opens a file for writing, in a
// goroutine of its own, where either would end the process.
func inspect(path string, o Options) (err error) {
	var db *bbolt.DB
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = damaged(path, fmt.Errorf("%v", p))
		}
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: o.lockTimeout(), OpenFile: openFetched})
	if err != nil {
		return openError(path, o, err)
	}
	tx, err := db.Begin(false)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it was only read
	if err := checkWhole(tx, path); err != nil {
		return err
	}
	err = tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return inspectBucket(b) })
	if err != nil {
		return damaged(path, err)
	}
	return nil
}

// openFetched opens a file and reads it once from end to end, so that the system has it in
// its cache: bbolt reads it page by page, in the order of keys.
func openFetched(name string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	for buffer, at := make([]byte, 1<<20), int64(0); err == nil; {
		var n int
		n, err = f.ReadAt(buffer, at) // where it cannot be read, whoever needs the page is told
		at += int64(n)
	}
	return f, nil
}

// inspectBucket goes through the keys in order, and seeks the first of each page: that way
// leads through the branches, whose own keys no walk looks at.
func inspectBucket(b *bbolt.Bucket) error {
	var last []byte
	lastPage := uintptr(0)
	c, seek := b.Cursor(), b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if bytes.Compare(last, k) >= 0 && last != nil {
			return errors.New("its keys are not in order")
		}
		last = k
		if page := uintptr(unsafe.Pointer(unsafe.SliceData(k))) / uintptr(os.Getpagesize()); page != lastPage {
			lastPage = page
			if found, _ := seek.Seek(k); !bytes.Equal(found, k) {
				return errors.New("one of its keys is not found where it is")
			}
		}
		if v != nil {
			continue
		}
		child := b.Bucket(k)
		if child == nil {
			return errors.New("a bucket is missing")
		}
		if err := inspectBucket(child); err != nil {
			return err
		}
	}
	return nil
}
