package bolt

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"tollgate/dedupe"
)

// Bulk replays are in the file only: a bucket for each, with its head and its items by
// number. A bucket without a head is one whose making did not come to its end.
var (
	bucketReplays = []byte("replays")
	keyReplay     = []byte("head")
)

// itemsAtOnce bounds the items that one commit stores, so that calls need not wait
// long for it.
const itemsAtOnce = 4096

func itemKey(n int) []byte { return append([]byte("item/"), key(uint64(n))...) }

// openReplays makes the bucket, which files of earlier versions do not have, and
// drops what was not made to its end.
func openReplays(tx *bbolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists(bucketReplays)
	if err != nil {
		return err
	}
	var broken [][]byte
	err = b.ForEachBucket(func(name []byte) error {
		if b.Bucket(name).Get(keyReplay) == nil {
			broken = append(broken, append([]byte(nil), name...))
		}
		return nil
	})
	for _, name := range broken {
		err = errors.Join(err, b.DeleteBucket(name))
	}
	return err
}

// CreateReplay stores a bulk replay with its frozen set. Without a name it gets one.
// It exists from the last commit on, which stores its head and the audit entries; a
// process that dies before leaves nothing.
func (l *Ledger) CreateReplay(ctx context.Context, r dedupe.Replay, items []dedupe.ReplayItem, audit ...dedupe.Audit) (string, dedupe.Receipt, error) {
	var name string
	_, err := l.do(ctx, func(b *batch) (_ dedupe.Receipt, err error) {
		name, err = b.nameReplay(r.Name)
		return dedupe.Receipt{}, err
	})
	if err != nil {
		return r.Name, dedupe.Receipt{}, err
	}
	r.Name = name
	for at := 0; err == nil && at < len(items); at += itemsAtOnce {
		chunk := items[at:min(at+itemsAtOnce, len(items))]
		_, err = l.do(ctx, func(b *batch) (dedupe.Receipt, error) { return dedupe.Receipt{}, b.putItems(r.Name, chunk) })
	}
	var receipt dedupe.Receipt
	if err == nil {
		for i := range audit {
			audit[i].Target = "replay " + r.Name
		}
		receipt, err = l.do(ctx, func(b *batch) (dedupe.Receipt, error) {
			return b.changeReplay(r.Name, dedupe.ReplayChange{Replay: &r, Audit: audit})
		})
	}
	if err != nil {
		err = errors.Join(err, l.DropReplay(context.WithoutCancel(ctx), r.Name))
	}
	return r.Name, receipt, err
}

// UpdateReplay runs m inside the commit, like Update.
func (l *Ledger) UpdateReplay(ctx context.Context, name string, m dedupe.ReplayMutation) (dedupe.Receipt, error) {
	return l.do(ctx, func(b *batch) (dedupe.Receipt, error) {
		r, err := readReplay(b.tx, name)
		if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
			return dedupe.Receipt{}, unavailable(err)
		}
		change, err := runReplay(m, r)
		if err != nil {
			return dedupe.Receipt{}, err
		}
		return b.changeReplay(name, change)
	})
}

// runReplay shields the batch from a mutation that panics.
func runReplay(m dedupe.ReplayMutation, r *dedupe.Replay) (c dedupe.ReplayChange, err error) {
	_, err = run(func(dedupe.View) dedupe.Change {
		c = m(r)
		return dedupe.Change{}
	}, dedupe.View{})
	return c, err
}

// DropReplay forgets a bulk replay. One that is not there is forgotten already.
func (l *Ledger) DropReplay(ctx context.Context, name string) error {
	_, err := l.do(ctx, func(b *batch) (dedupe.Receipt, error) {
		return dedupe.Receipt{}, b.past(func(replays *bbolt.Bucket) error {
			err := replays.DeleteBucket([]byte(name))
			if errors.Is(err, bolterrors.ErrBucketNotFound) {
				return nil
			}
			return err
		})
	})
	return err
}

// Replay returns a bulk replay, or [dedupe.ErrNotFound].
func (l *Ledger) Replay(name string) (r *dedupe.Replay, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		r, err = readReplay(tx, name)
		return err
	})
	return r, err
}

// Replays returns all bulk replays, by name.
func (l *Ledger) Replays() (all []*dedupe.Replay, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		replays, err := bucket(tx, bucketReplays)
		if err != nil {
			return err
		}
		return replays.ForEachBucket(func(name []byte) error {
			r, err := readReplay(tx, string(name))
			if errors.Is(err, dedupe.ErrNotFound) {
				return nil // it is being made
			}
			all = append(all, r)
			return err
		})
	})
	return all, err
}

// ReplayItems calls f with the items of a bulk replay from the given number on, until
// it returns false.
func (l *Ledger) ReplayItems(name string, from int, f func(dedupe.ReplayItem) bool) error {
	return l.view(func(tx *bbolt.Tx) error {
		replays, err := bucket(tx, bucketReplays)
		if err != nil {
			return err
		}
		b := replays.Bucket([]byte(name))
		if b == nil || b.Get(keyReplay) == nil {
			return fmt.Errorf("replay %s is %w", name, dedupe.ErrNotFound)
		}
		c := b.Cursor()
		for k, v := c.Seek(itemKey(from)); k != nil; k, v = c.Next() { // the head sorts before all items
			var item dedupe.ReplayItem
			if err := readVersioned(v, &item); err != nil {
				return err
			}
			if !f(item) {
				return nil
			}
		}
		return nil
	})
}

func readReplay(tx *bbolt.Tx, name string) (*dedupe.Replay, error) {
	replays, err := bucket(tx, bucketReplays)
	if err != nil {
		return nil, err
	}
	var v []byte
	if b := replays.Bucket([]byte(name)); b != nil {
		v = b.Get(keyReplay)
	}
	if v == nil {
		return nil, fmt.Errorf("replay %s is %w", name, dedupe.ErrNotFound)
	}
	var r dedupe.Replay
	if err := readVersioned(v, &r); err != nil {
		return nil, fmt.Errorf("replay %s: %w", name, err)
	}
	return &r, nil
}

// past writes into the file past the overlay. A write that failed half way must not
// be committed, so it fails the whole batch.
func (b *batch) past(write func(replays *bbolt.Bucket) error) error {
	replays, err := bucket(b.tx, bucketReplays)
	if err == nil {
		b.touched = true
		err = write(replays)
	}
	if err != nil {
		b.broken = errors.Join(b.broken, err)
		return unavailable(err)
	}
	return nil
}

// nameReplay makes the bucket of a bulk replay, under the next free name if it has none.
func (b *batch) nameReplay(name string) (string, error) {
	taken := false
	err := b.past(func(replays *bbolt.Bucket) error {
		if taken = name != "" && replays.Bucket([]byte(name)) != nil; taken {
			return nil
		}
		for name == "" {
			n, err := replays.NextSequence()
			if err != nil {
				return err
			}
			if free := "r-" + strconv.FormatUint(n, 10); replays.Bucket([]byte(free)) == nil {
				name = free
			}
		}
		_, err := replays.CreateBucket([]byte(name))
		return err
	})
	if taken {
		return name, fmt.Errorf("replay %s %w", name, dedupe.ErrExists)
	}
	return name, err
}

// changeReplay writes what changes about a bulk replay. What cannot be stored fails
// this change only.
func (b *batch) changeReplay(name string, c dedupe.ReplayChange) (dedupe.Receipt, error) {
	var head []byte
	if c.Replay != nil {
		var err error
		if head, err = versioned(c.Replay); err != nil {
			return dedupe.Receipt{}, refused(err)
		}
	}
	receipt, err := b.stage(dedupe.Change{Audit: c.Audit})
	if err == nil {
		err = b.putItems(name, c.Items)
	}
	if err == nil && head != nil {
		err = b.past(func(replays *bbolt.Bucket) error { return put(replays, name, keyReplay, head) })
	}
	return receipt, err
}

func (b *batch) putItems(name string, items []dedupe.ReplayItem) error {
	for _, item := range items {
		v, err := versioned(item)
		if err == nil {
			err = b.past(func(replays *bbolt.Bucket) error { return put(replays, name, itemKey(item.N), v) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mark stores an item whose letter changes in this batch. An error breaks the batch.
func (b *batch) mark(m dedupe.ReplayMark, value []byte) {
	_ = b.past(func(replays *bbolt.Bucket) error { return put(replays, m.Replay, itemKey(m.Item.N), value) })
}

// put stores something of a bulk replay, unless that was dropped meanwhile.
func put(replays *bbolt.Bucket, name string, key, value []byte) error {
	b := replays.Bucket([]byte(name))
	if b == nil {
		return nil
	}
	b.FillPercent = 0.9 // items are stored in their order, and change little in size
	return b.Put(key, value)
}
