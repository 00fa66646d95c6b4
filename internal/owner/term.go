package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// ErrLost is wrapped when another dispatcher has taken the ownership over, or the
// key was removed. Nothing may be claimed any more.
var ErrLost = errors.New("the ledger's ownership was lost")

// Term is the ownership, for as long as it is renewed. Valid may be called by
// anybody; Run and Release have one caller each, Release after Run has returned.
type Term struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	bucket string
	log    zerolog.Logger
	mine   Holder

	mu       sync.Mutex // guards what follows; never held across I/O
	revision uint64
	renewed  time.Time // monotonic, before the write that renewed was sent
	over     bool      // lost or released
}

// Instance names this process in the owner key.
func (t *Term) Instance() string { return t.mine.Instance }

// Valid reports whether the term was renewed within half its TTL on the monotonic
// clock: whoever waits for the whole TTL by the server's then cannot meet a claim.
func (t *Term) Valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.over && time.Since(t.renewed) < t.mine.TTL/2
}

// Run renews the term until ctx ends, which is no error. It returns an error that
// wraps [ErrLost] when there is nothing left to renew. An unreachable server is
// waited for: the term stops being valid meanwhile.
func (t *Term) Run(ctx context.Context) error {
	tick := time.NewTicker(t.mine.TTL / 6)
	defer tick.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := t.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrLost):
			t.end()
			return err
		case err != nil && !failing:
			t.log.Warn().Err(err).Msg("the ledger's ownership was not renewed; no call is claimed until it is")
		case err == nil && failing:
			t.log.Info().Msg("the ledger's ownership is renewed again")
		}
		failing = err != nil
	}
}

// Release gives the ownership back, so that another may start without waiting.
func (t *Term) Release(ctx context.Context) error {
	t.mu.Lock()
	over, revision := t.over, t.revision
	t.over = true
	t.mu.Unlock()
	if over {
		return nil
	}
	t.mine.Released = true
	err := t.write(ctx, time.Now(), revision)
	if conflict(err) {
		return nil // somebody else's by now, or it says what we wrote
	}
	return err
}

// renew writes the key again. A write whose reply was lost leaves a revision we do
// not know, with our own value: that one is ours.
func (t *Term) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.mine.TTL/6)
	defer cancel()
	sent := time.Now()
	t.mu.Lock()
	revision := t.revision
	t.mu.Unlock()
	err := t.write(ctx, sent, revision)
	if !conflict(err) {
		return err
	}
	entry, err := t.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("%w: the key in %s was removed", ErrLost, t.bucket)
	}
	if err != nil {
		return fmt.Errorf("reading the owner key: %w", err)
	}
	var now Holder
	if err := json.Unmarshal(entry.Value(), &now); err != nil || now.Instance != t.mine.Instance {
		return fmt.Errorf("%w: %s (ledger %s, start %d) took it over", ErrLost, now.Instance, now.LedgerID, now.Epoch)
	}
	return t.write(ctx, sent, entry.Revision())
}

// write stores our value over the given revision, 0 for a key that is not there.
// A [conflict] means that the key has another revision by now.
func (t *Term) write(ctx context.Context, sent time.Time, revision uint64) error {
	value, err := json.Marshal(t.mine)
	if err != nil {
		return fmt.Errorf("encoding the owner key: %w", err)
	}
	if revision == 0 {
		revision, err = t.kv.Create(ctx, key, value)
	} else {
		revision, err = t.kv.Update(ctx, key, value, revision)
	}
	if err != nil {
		return fmt.Errorf("writing the owner key: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revision, t.renewed = revision, sent
	return nil
}

// conflict tells a lost compare-and-swap: a replicated bucket has another code for
// it than a single one.
func conflict(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}

func (t *Term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}
