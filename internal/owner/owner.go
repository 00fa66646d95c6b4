// Package owner keeps one dispatcher per local ledger. The key in the bucket
// TOLLGATE_OWNER says which ledger file is the true one, how many starts it has
// seen, and who runs on it now; it is changed by compare-and-swap only.
//
// It refuses a second dispatcher and a file that is foreign, old or missing. It
// knows nothing of what a ledger holds, and does not lock files: the ledger does.
package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"
)

// Bucket is the key-value bucket the owner key lives in, unless the options name another.
const Bucket = "TOLLGATE_OWNER"

const key = "ledger"

// DefaultTTL is how long a term lasts that is not renewed.
const DefaultTTL = 15 * time.Second

// Holder is the value of the owner key.
type Holder struct {
	LedgerID string        `json:"ledger_id"`
	Epoch    uint64        `json:"epoch"`
	Instance string        `json:"instance"` // host, process and a random part
	Since    time.Time     `json:"since"`    // the holder's own clock
	TTL      time.Duration `json:"ttl"`
	Released bool          `json:"released,omitempty"` // an orderly stop
	File     string        `json:"file,omitempty"`     // which file on which machine it is; a copy is another
}

// Options set how a term is taken.
type Options struct {
	Bucket  string        // "": Bucket; one for each prefix of subjects
	TTL     time.Duration // 0: DefaultTTL
	File    string        // tells the ledger's file from a copy of it; "": unknown
	Fresh   bool          // the ledger file was not there and has just been created
	Recover bool          // the operator says that this file is to be the ledger from now on
	Log     zerolog.Logger
}

// Acquire takes the ownership for the ledger file with this ID. epoch is the
// number of this start, higher than that of every earlier start of the file.
//
// A refusal is a *[Refused]. The very same file (o.File) with a higher epoch takes over
// at once, whether or not its last holder released the key: we hold the file's lock, so
// that process is dead. A copy of the file, or the file on another machine, says
// nothing about that process: it has to wait until its term is over.
func Acquire(ctx context.Context, js jetstream.JetStream, ledgerID string, epoch uint64, o Options) (*Term, error) {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Bucket == "" {
		o.Bucket = Bucket
	}
	if ledgerID == "" || epoch == 0 || o.TTL < 0 {
		return nil, fmt.Errorf("owner: ledger ID %q, epoch %d and TTL %v must be set and positive", ledgerID, epoch, o.TTL)
	}
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: o.Bucket, Description: "which ledger file is the true one, and who runs on it", History: 1, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the bucket %s: %w", o.Bucket, err)
	}
	t := &Term{js: js, kv: kv, bucket: o.Bucket, log: o.Log, mine: Holder{
		LedgerID: ledgerID, Epoch: epoch, Instance: instance(), Since: time.Now().UTC(), TTL: o.TTL, File: o.File,
	}}
	for { // until nobody changes the key between our look and our write
		err := t.take(ctx, o)
		if !conflict(err) {
			return t, err
		}
	}
}

// take looks at the key once and writes it once.
func (t *Term) take(ctx context.Context, o Options) error {
	sent := time.Now()
	entry, err := t.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		if !o.Fresh {
			t.log.Warn().Str("ledger_id", t.mine.LedgerID).Msgf("the owner key was not in %s although the ledger file has a history: the NATS store may have been replaced, so calls it held are gone; starting on the file", t.bucket)
		}
		return t.write(ctx, sent, 0)
	case err != nil:
		return fmt.Errorf("reading the owner key: %w", err)
	}
	var old Holder
	if err := json.Unmarshal(entry.Value(), &old); err != nil && !o.Recover {
		return fmt.Errorf("the owner key in %s does not read (start with --recover to replace it): %w", t.bucket, err)
	}
	age, err := t.age(ctx, entry)
	if err != nil {
		return err
	}
	if no := old.refuse(t.mine, age, o); no != nil {
		return no
	}
	if old.LedgerID != t.mine.LedgerID || t.mine.Epoch <= old.Epoch {
		t.log.Warn().Str("ledger_id", t.mine.LedgerID).Uint64("epoch", t.mine.Epoch).Str("was", old.LedgerID).Uint64("was_epoch", old.Epoch).
			Msg("recovering: this ledger file replaces the one the owner key named; remove other copies of it")
	}
	return t.write(ctx, sent, entry.Revision())
}

// age says how long ago the key was written, by the server's clock alone: the
// clocks of two dispatchers may differ by more than a term.
func (t *Term) age(ctx context.Context, entry jetstream.KeyValueEntry) (time.Duration, error) {
	s, err := t.js.Stream(ctx, "KV_"+t.bucket)
	if err != nil {
		return 0, fmt.Errorf("asking for the server's time: %w", err)
	}
	return s.CachedInfo().TimeStamp.Sub(entry.Created()), nil
}

func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), nuid.Next()[16:])
}
