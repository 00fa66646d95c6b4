package bolt

import (
	"context"
	"maps"

	"go.etcd.io/bbolt"

	"tollgate/dedupe"
)

const remarkPrefix = "remark/"

// SetRemark stores what an operator says of a group of dead letters, or with nil that
// there is nothing to say any more, together with the audit entry of it.
func (l *Ledger) SetRemark(ctx context.Context, group string, r *dedupe.Remark, a dedupe.Audit) (dedupe.Receipt, error) {
	return l.do(ctx, func(b *batch) (dedupe.Receipt, error) {
		receipt, err := b.stage(dedupe.Change{Audit: []dedupe.Audit{a}})
		if err == nil {
			b.remarks[group] = r
		}
		return receipt, err
	})
}

// Remarks returns what is noted about groups.
func (l *Ledger) Remarks() map[string]dedupe.Remark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.memory.remarks)
}

func (b *batch) writeRemarks() error {
	if len(b.remarks) == 0 {
		return nil
	}
	meta, err := bucket(b.tx, bucketMeta)
	if err != nil {
		return err
	}
	for group, r := range b.remarks {
		if err := putMeta(meta, remarkPrefix+group, r); err != nil {
			return err
		}
	}
	return nil
}

// putMeta stores what a pointer points at, and removes what stands under the name
// when it is nil.
func putMeta[T any](meta *bbolt.Bucket, name string, p *T) error {
	if p == nil {
		return meta.Delete([]byte(name))
	}
	v, err := versioned(p)
	if err != nil {
		return err
	}
	return meta.Put([]byte(name), v)
}

// keep takes what a commit has set into memory.
func keep[T any](memory map[string]T, set map[string]*T) {
	for name, p := range set {
		if p == nil {
			delete(memory, name)
		} else {
			memory[name] = *p
		}
	}
}
