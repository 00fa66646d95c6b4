package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// inspect reads every page that is in use and checks that it is what bbolt wrote, and every
// record against its checksum. bbolt reads the pages too when it opens a file for writing,
// in a goroutine of its own, where damage ends the process; and it believes what a page
// says of its own length, so that one that is too short has its end overwritten.
func inspect(path string, o Options) (err error) {
	var db *bbolt.DB
	var file *os.File
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = damaged(path, fmt.Errorf("%v", p))
		}
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: o.lockTimeout(),
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
			return file, err
		}})
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
	fetch(file, tx.Size())
	size := db.Info().PageSize
	in := inspection{file: file, pageSize: size, seen: make([]bool, tx.Size()/int64(size))}
	if err := in.all(uint64(tx.Cursor().Bucket().Root())); err != nil {
		return damaged(path, err)
	}
	return nil
}

// fetch reads a file once from end to end, so that the system has it in its cache: its
// pages are read in the order of keys, which is not theirs.
func fetch(f *os.File, size int64) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.NewSectionReader(f, 0, size), make([]byte, 1<<20)) // what cannot be read whoever needs it is told
}

// The layout of a page, which is bbolt's. Numbers are little-endian where bbolt runs here.
//
//	page    id 8, flags 2, elements 2, pages it goes on for 4; elements; keys and values
//	branch  where its key is, from the element on 4, length of the key 4, page 8
//	leaf    flags 4, where its key is 4, length of the key 4, of the value 4
//	bucket  root page 8, sequence 8; a page without one of its own follows when the root is 0
const (
	pageHead    = 16
	elementSize = 16
	bucketHead  = 16
	branchPage  = 1
	leafPage    = 2
	bucketEntry = 1
)

// inspection goes through the pages of a file.
type inspection struct {
	file     *os.File
	pageSize int
	seen     []bool // by page
	todo     []pending
}

// pending is a page that is to be looked at: a subtree with keys from first on, and before
// the next one.
type pending struct {
	id          uint64
	first, next []byte // nil: no bound
	depth       int    // 0: the root of its bucket, which alone may be empty
	leaves      *int   // one more than how deep the bucket's leaves are, all of them; 0: none was seen
	holds       func(value []byte) error
}

// rootOf is a bucket whose values are to be checked with holds, where not nil.
func rootOf(id uint64, holds func([]byte) error) pending {
	return pending{id: id, leaves: new(int), holds: holds}
}

// all looks at every page that can be reached, each once: whatever leads to one twice, or
// in a circle, is damage.
func (in *inspection) all(root uint64) error {
	in.todo = append(in.todo, rootOf(root, nil))
	for len(in.todo) > 0 {
		p := in.todo[len(in.todo)-1]
		in.todo = in.todo[:len(in.todo)-1]
		data, err := in.read(p.id)
		if err == nil {
			err = in.page(p, data)
		}
		if err != nil {
			return fmt.Errorf("page %d: %w", p.id, err)
		}
	}
	return nil
}

// read returns a page with those it goes on for.
func (in *inspection) read(id uint64) ([]byte, error) {
	if id < 2 || id >= uint64(len(in.seen)) {
		return nil, errors.New("there is no such page")
	}
	head := make([]byte, in.pageSize)
	if _, err := in.file.ReadAt(head, int64(id)*int64(in.pageSize)); err != nil {
		return nil, err
	}
	more := uint64(binary.LittleEndian.Uint32(head[12:]))
	switch {
	case binary.LittleEndian.Uint64(head) != id:
		return nil, errors.New("it is another page")
	case id+more >= uint64(len(in.seen)):
		return nil, errors.New("it is longer than the file")
	}
	for i := id; i <= id+more; i++ {
		if in.seen[i] {
			return nil, errors.New("something else leads to it too")
		}
		in.seen[i] = true
	}
	if more == 0 {
		return head, nil
	}
	data := make([]byte, (1+more)*uint64(in.pageSize))
	_, err := in.file.ReadAt(data, int64(id)*int64(in.pageSize))
	return data, err
}

// page checks one page, and remembers those that it leads to.
func (in *inspection) page(p pending, data []byte) error {
	kind := binary.LittleEndian.Uint16(data[8:])
	if kind != branchPage && kind != leafPage {
		return errors.New("it is no page of keys")
	}
	entries, used, err := elements(data, kind == branchPage)
	if err != nil {
		return err
	}
	pages, least := len(data)/in.pageSize, (used+in.pageSize-1)/in.pageSize
	switch {
	case pages < least || pages > used/in.pageSize+1:
		return fmt.Errorf("it has %d pages for %d bytes", pages, used)
	case len(entries) == 0 && !(p.depth == 0 && kind == leafPage):
		return errors.New("it has no keys")
	case kind == leafPage && *p.leaves > 0 && *p.leaves != p.depth+1:
		return errors.New("it is no page of this level")
	case kind == leafPage:
		*p.leaves = p.depth + 1
	}
	if err := inOrder(entries, p); err != nil {
		return err
	}
	for i, e := range entries {
		if kind == leafPage {
			err = in.entry(p, e)
		} else {
			next := p.next
			if i+1 < len(entries) {
				next = entries[i+1].key
			}
			in.todo = append(in.todo, pending{id: e.page, first: e.key, next: next, depth: p.depth + 1, leaves: p.leaves, holds: p.holds})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry checks what a leaf has under a key: a bucket or a value.
func (in *inspection) entry(p pending, e element) error {
	switch {
	case e.flags == 0 && p.holds != nil:
		return p.holds(e.value)
	case e.flags == 0:
		return nil
	case e.flags != bucketEntry:
		return errors.New("a key is of no known kind")
	case len(e.value) < bucketHead:
		return errors.New("a bucket is cut off")
	}
	holds := p.holds
	switch string(e.key) {
	case string(bucketHot), string(bucketWaiting), string(bucketTerminal):
		holds = intact
	}
	if root := binary.LittleEndian.Uint64(e.value); root != 0 {
		in.todo = append(in.todo, rootOf(root, holds))
		return nil
	}
	inline := e.value[bucketHead:]
	if len(inline) < pageHead || binary.LittleEndian.Uint16(inline[8:]) != leafPage {
		return errors.New("a small bucket is no page of keys")
	}
	entries, _, err := elements(inline, false)
	if err == nil {
		err = inOrder(entries, pending{})
	}
	for _, inner := range entries {
		if err == nil && inner.flags != 0 {
			err = errors.New("a small bucket has a bucket in it")
		}
		if err == nil && holds != nil {
			err = holds(inner.value)
		}
	}
	return err
}

// element is one of a page: of a branch, a key and the page where keys go on from it.
type element struct {
	flags      uint32
	page       uint64
	key, value []byte
}

// elements are those of a page, which must lie as bbolt lays them: without a gap, in the
// page. A number that has changed, the number of elements too, does not fit the others.
func elements(data []byte, branch bool) (all []element, used int, err error) {
	n := int(binary.LittleEndian.Uint16(data[10:]))
	at := pageHead + n*elementSize
	if at > len(data) {
		return nil, 0, errors.New("its elements are cut off")
	}
	all = make([]element, n)
	for i := range all {
		from := pageHead + i*elementSize
		raw := data[from : from+elementSize]
		e, where, value := &all[i], uint32(0), uint32(0)
		key := binary.LittleEndian.Uint32(raw[8:])
		if branch {
			where, key, e.page = binary.LittleEndian.Uint32(raw), binary.LittleEndian.Uint32(raw[4:]), binary.LittleEndian.Uint64(raw[8:])
		} else {
			e.flags, where, value = binary.LittleEndian.Uint32(raw), binary.LittleEndian.Uint32(raw[4:]), binary.LittleEndian.Uint32(raw[12:])
		}
		end := int64(at) + int64(key) + int64(value)
		if int64(from)+int64(where) != int64(at) || end > int64(len(data)) {
			return nil, 0, fmt.Errorf("its element %d is not where it belongs", i)
		}
		e.key, e.value = data[at:at+int(key)], data[at+int(key):end]
		at = int(end)
	}
	return all, at, nil
}

// inOrder checks that keys rise, and stay between those that the branch above names.
func inOrder(entries []element, p pending) error {
	last := p.first
	for i, e := range entries {
		if c := bytes.Compare(last, e.key); last != nil && (c > 0 || c == 0 && i > 0) {
			return errors.New("its keys are not in order")
		}
		last = e.key
	}
	if p.next != nil && last != nil && bytes.Compare(last, p.next) >= 0 {
		return errors.New("its keys go beyond the next page's")
	}
	return nil
}

// intact checks a record against its checksum.
func intact(v []byte) error {
	if len(v) < headSize || checksum(v) != binary.BigEndian.Uint32(v[crcAt:]) {
		return errors.New("a record has a wrong checksum")
	}
	return nil
}
