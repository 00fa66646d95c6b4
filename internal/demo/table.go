package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Payment is one thing the provider has done.
type Payment struct {
	ID    string    `json:"id"`
	Tool  string    `json:"tool"`
	Key   string    `json:"key"` // the idempotency key it was asked with
	Cents int64     `json:"amount_cents"`
	To    string    `json:"to"`
	At    time.Time `json:"at"`
}

// table is the provider's own record: a file of lines, one a payment, written before
// the answer goes out.
type table struct {
	mu    sync.Mutex // guards all below
	file  *os.File
	all   []Payment
	byKey map[string]int // of payments made under a unique key
}

func openTable(path string) (*table, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the payments: %w", err)
	}
	t := &table{file: f, byKey: map[string]int{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var p Payment
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, errors.Join(fmt.Errorf("the payments in %s cannot be read; remove the file to begin anew: %w", path, err), f.Close())
		}
		t.remember(p)
	}
	return t, errors.Join(lines.Err())
}

func (t *table) remember(p Payment) {
	t.byKey[p.Key] = len(t.all)
	t.all = append(t.all, p)
}

// pay makes a payment. With unique, a second request with the same key gets the
// first one's, and nothing moves.
func (t *table) pay(p Payment, unique bool) (made Payment, repeated bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := t.byKey[p.Key]; unique && ok && t.all[i].Tool == p.Tool {
		return t.all[i], true, nil
	}
	p.ID, p.At = fmt.Sprintf("pay_%06d", len(t.all)+1), time.Now().UTC()
	line, err := json.Marshal(p)
	if err != nil {
		return p, false, err
	}
	if _, err := t.file.Write(append(line, '\n')); err != nil {
		return p, false, err
	}
	t.remember(p)
	return p, false, nil
}

func (t *table) has(tool, key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.byKey[key]
	return ok && t.all[i].Tool == tool
}

func (t *table) rows() []Payment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}

func (t *table) close() error {
	if err := t.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
