package bolt

import (
	"context"
	"maps"

	"tollgate/dedupe"
)

// SetPause stores that a tool is paused, or with nil that it is not, together with
// the audit entry of who decided it, which is made of what held before.
func (l *Ledger) SetPause(ctx context.Context, tool string, p *dedupe.Pause, audit func(was *dedupe.Pause) dedupe.Audit) (dedupe.Receipt, error) {
	return l.do(ctx, func(b *batch) (dedupe.Receipt, error) {
		was, staged := b.pauses[tool]
		if now, paused := l.Pauses()[tool]; !staged && paused {
			was = &now
		}
		receipt, err := b.stage(dedupe.Change{Audit: []dedupe.Audit{audit(was)}})
		if err == nil {
			b.pauses[tool] = p
		}
		return receipt, err
	})
}

// Pauses returns the paused tools.
func (l *Ledger) Pauses() map[string]dedupe.Pause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.memory.pauses)
}

func (b *batch) writePauses() error {
	if len(b.pauses) == 0 {
		return nil
	}
	meta, err := bucket(b.tx, bucketMeta)
	if err != nil {
		return err
	}
	for tool, p := range b.pauses {
		if err := putMeta(meta, pausePrefix+tool, p); err != nil {
			return err
		}
	}
	return nil
}

// importChunk bounds the records of one commit of an import.
const importChunk = 256

// Import stores records that were read back from the streams when a lost ledger is
// rebuilt. A call the ledger knows is left as it is. Results are not owed again.
func (l *Ledger) Import(ctx context.Context, records []*dedupe.Record) error {
	for len(records) > 0 {
		chunk := records[:min(importChunk, len(records))]
		records = records[len(chunk):]
		_, err := l.do(ctx, func(b *batch) (dedupe.Receipt, error) { return dedupe.Receipt{}, b.adopt(chunk) })
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt stages the records that are unknown.
func (b *batch) adopt(records []*dedupe.Record) error {
	for _, r := range records {
		s, err := b.load(r.Call)
		if err != nil {
			return err
		}
		if s.record != nil {
			continue
		}
		c := r.Clone()
		c.Result = 0 // numbered by another ledger
		if _, err := b.stage(dedupe.Change{Record: c}); err != nil {
			return err
		}
	}
	return nil
}
