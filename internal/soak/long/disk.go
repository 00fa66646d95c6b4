package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// disk is a small file system of its own, which can be filled up.
type disk struct {
	dir string

	mu    sync.Mutex // guards below
	spell int        // spells under way
	ended time.Time  // of the last
}

func mount(dir string, size int64) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Mount("soak", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	return &disk{dir: dir}, nil
}

// fill keeps the disk full for so long: what is freed meanwhile is taken at once.
func (d *disk) fill(length time.Duration) error {
	d.mark(1)
	defer d.mark(-1)
	path := filepath.Join(d.dir, "ballast")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(path)) }()
	zeros := make([]byte, 1<<20)
	for end := time.Now().Add(length); time.Now().Before(end); {
		n := len(zeros)
		for n >= 512 { // the last hole counts
			if _, err = f.Write(zeros[:n]); err != nil {
				n /= 2
			}
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("fill %s: %w", d.dir, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

func (d *disk) mark(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spell += n
	d.ended = time.Now()
}

// well reports whether the disk has had room for a while.
func (d *disk) well(while time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spell == 0 && time.Since(d.ended) > while
}

// taken is the space that the files under a directory take. Files that go away
// meanwhile take none.
func taken(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "ballast" {
			return nil
		}
		if info, err := e.Info(); err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return bytes
}
