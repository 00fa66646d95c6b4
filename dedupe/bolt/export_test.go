package bolt

import "sync/atomic"

// Faulty is a ledger whose commits can be made to fail.
type Faulty struct {
	*Ledger
	err atomic.Pointer[error]
}

// OpenFaulty opens a ledger whose commits can be made to fail.
func OpenFaulty(path string, o Options) (*Faulty, error) {
	f := &Faulty{}
	o.fault = func() error {
		if err := f.err.Load(); err != nil {
			return *err
		}
		return nil
	}
	var err error
	f.Ledger, err = Open(path, o)
	return f, err
}

// FailCommits makes every commit fail with err; nil ends it.
func (f *Faulty) FailCommits(err error) {
	if err == nil {
		f.err.Store(nil)
		return
	}
	f.err.Store(&err)
}

// Commits counts the commits that succeeded.
func (f *Faulty) Commits() uint64 { return f.Stats().Commits }
