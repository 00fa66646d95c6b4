package bolt

import (
	"time"

	"go.etcd.io/bbolt"
)

// forgetEvery is how often the pages of the file that were looked at are forgotten. In
// a flow of commits a second brings back tens of megabytes: the system maps the pages
// around each that is read, and free ones are reused all over the file.
const forgetEvery = 500 * time.Millisecond

// forget takes the mapped file out of this process's memory. The pages stay in the
// system's cache and come back one by one when they are read; without it a start, or
// a day, would leave the whole file counted as memory of this process.
func (l *Ledger) forget() { l.advise(forgetPages) }

// readAll has the system read ahead until readSome: a start goes through the file
// from end to end, where a page at a time takes many times as long from the disk.
func (l *Ledger) readAll() { l.advise(readAhead) }

func (l *Ledger) readSome() { l.advise(readOne) }

// advise tells the system how the file will be used. A read transaction keeps the
// map where it is meanwhile. That the advice is not taken changes no result.
func (l *Ledger) advise(a advice) {
	_ = l.view(func(tx *bbolt.Tx) error {
		adviseRange(l.db.Info().Data, uintptr(tx.Size()), a)
		return nil
	})
}

// forgetNowAndThen forgets what was read since the last time.
func (l *Ledger) forgetNowAndThen(now time.Time) {
	if now.Sub(l.forgotten) >= forgetEvery {
		l.forgotten = now
		l.forget()
	}
}
