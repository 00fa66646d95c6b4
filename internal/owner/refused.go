package owner

import (
	"fmt"
	"time"
)

// Cause says why a start was refused. Zero is invalid.
type Cause uint8

// The causes.
const (
	Held    Cause = iota + 1 // another dispatcher renews its term
	Foreign                  // the key names another ledger
	Behind                   // the key has seen a later start of this ledger: the file is an old copy
	Missing                  // the key names a ledger, and the file was not there
)

func (c Cause) String() string { return [...]string{"", "held", "foreign", "behind", "missing"}[c] }

// Refused says why this ledger file may not be used, and who holds the key.
type Refused struct {
	Cause  Cause
	Holder Holder
	Age    time.Duration // since the holder's last renewal
	Ledger string        // ours
	Epoch  uint64        // ours
}

const recovery = "Recovering treats writes it does not know as unknown outcomes: restore the newest file if there is one, else start once with --recover."

func (r *Refused) Error() string {
	switch r.Cause {
	case Held:
		return fmt.Sprintf("another dispatcher owns the ledger: %s, since %s, last renewed %v ago (ledger %s). "+
			"A local ledger has one dispatcher: stop that one, or wait %v after it died; to run several, use the cluster mode",
			r.Holder.Instance, r.Holder.Since.Format(time.RFC3339), r.Age.Round(time.Millisecond), r.Holder.LedgerID, r.Holder.TTL)
	case Foreign:
		return fmt.Sprintf("this ledger file is %s, but the streams belong to ledger %s (last held by %s): calls already answered could run again. "+
			"Check the ledger path and the NATS address. %s", r.Ledger, r.Holder.LedgerID, r.Holder.Instance, recovery)
	case Behind:
		return fmt.Sprintf("this ledger file is an old copy: it is at start %d, but ledger %s was started %d times (last by %s): calls answered since could run again. %s",
			r.Epoch, r.Holder.LedgerID, r.Holder.Epoch, r.Holder.Instance, recovery)
	default:
		return fmt.Sprintf("there was no ledger file, but the streams belong to ledger %s (last held by %s): calls already answered could run again. "+
			"Check the ledger path and that its volume is mounted. %s", r.Holder.LedgerID, r.Holder.Instance, recovery)
	}
}

// refuse says whether a start as mine must not take over from old, which wrote the
// key age ago.
func (old Holder) refuse(mine Holder, age time.Duration, o Options) error {
	no := &Refused{Holder: old, Age: age, Ledger: mine.LedgerID, Epoch: mine.Epoch}
	ours := old.LedgerID == mine.LedgerID && !o.Fresh
	switch {
	case ours && mine.Epoch > old.Epoch && mine.File != "" && mine.File == old.File:
		return nil // the lock on this very file says that its holder is dead
	case !old.Released && age < old.TTL:
		no.Cause = Held // even when recovering: two ledgers at once would answer differently
	case o.Recover, ours && mine.Epoch > old.Epoch:
		return nil
	case o.Fresh:
		no.Cause = Missing
	case ours:
		no.Cause = Behind
	default:
		no.Cause = Foreign
	}
	return no
}
