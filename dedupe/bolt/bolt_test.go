package bolt_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"tollgate/dedupe/bolt"
	"tollgate/dedupe/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, dir string) ledgertest.Ledger {
		l, err := bolt.OpenFaulty(filepath.Join(dir, "ledger.db"), bolt.Options{Retention: ledgertest.Retention, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}
