package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// held is every message in this process's hands, running and buffered alike. Each
// gets an in-progress signal well before the server would deliver it again.
type held struct {
	mu   sync.Mutex // guards msgs
	msgs map[*nats.Msg]struct{}
}

func (h *held) add(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.msgs[m] = struct{}{}
}

func (h *held) remove(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.msgs, m)
}

func (h *held) snapshot() []*nats.Msg {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*nats.Msg, 0, len(h.msgs))
	for m := range h.msgs {
		all = append(all, m)
	}
	return all
}

// run signals until ctx ends.
func (h *held) run(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			for _, m := range h.snapshot() {
				_ = m.InProgress() // a signal that is lost is repeated; one too many is harmless
			}
		}
	}
}
