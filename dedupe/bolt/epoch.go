package bolt

import (
	"context"

	"tollgate/dedupe"
)

// Epoch is the number of this opening. Claims carry it.
func (l *Ledger) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// SetEpoch replaces the epoch of this opening, before anything is claimed: by a
// higher one when the ownership demands it, or by the one before when the
// ownership was refused, since an old copy of the file must not catch up by being
// opened often enough.
func (l *Ledger) SetEpoch(ctx context.Context, epoch uint64) error {
	_, err := l.do(ctx, func(b *batch) (dedupe.Receipt, error) {
		meta, err := bucket(b.tx, bucketMeta)
		if err != nil {
			return dedupe.Receipt{}, err
		}
		b.touched = true
		l.mu.Lock()
		l.epoch = epoch
		l.mu.Unlock()
		return dedupe.Receipt{}, meta.Put(keyEpoch, key(epoch))
	})
	return err
}
