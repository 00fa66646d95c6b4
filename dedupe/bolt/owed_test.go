package bolt_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

// I12: a server that answers before its disk has a result may lose it with the
// power. Such a result stays owed in the file until it must be on the disk.
func TestI12APublishedResultStaysOwedUntilTheDiskHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		o := bolt.Options{Retention: time.Hour, Create: true, KeepPublished: 15 * time.Second}
		l := open(t, path, o)
		r := &dedupe.Record{Call: dedupe.CallID("t", "r", "tool", "k"), Tenant: "t", Root: "r", Run: "r", Tool: "tool", State: dedupe.Done,
			Settled: time.Now(), Outcome: &schemas.Outcome{V: 1, ID: "o"}}
		receipt, err := l.Update(t.Context(), r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r, Result: true} })
		if err != nil {
			t.Fatal(err)
		}
		l.Published(dedupe.Publication{Result: receipt.Result})
		if n, _, _ := l.Pending(); n != 0 {
			t.Errorf("%d results pending after the server has answered", n)
		}
		for _, step := range []struct {
			after time.Duration
			ill   bool // the server cannot write
			owed  int
		}{{5 * time.Second, false, 1}, {30 * time.Minute, true, 1}, {30 * time.Second, false, 0}} {
			l.Keep(step.ill)
			time.Sleep(step.after)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = open(t, path, o)
			_, results, _ := l.Owed()
			if len(results) != step.owed {
				t.Errorf("%d results owed to the next start after %s, want %d", len(results), step.after, step.owed)
			}
			for _, r := range results {
				l.Published(dedupe.Publication{Result: r.Result})
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
