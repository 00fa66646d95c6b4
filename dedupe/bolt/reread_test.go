package bolt_test

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

// A commit that is reported as failed and is in the file nevertheless, as after a
// failed sync: the ledger reads its file again by itself, says so, and hands out what
// such a commit owes. Nobody else would publish it before the next start.
func TestI12WhatAFailedCommitLeftInTheFileIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := false
		l, err := bolt.Open(filepath.Join(t.TempDir(), "ledger.db"), bolt.Options{Retention: time.Hour, Create: true, Commit: func(commit func() error) error {
			if err := commit(); err != nil || !failing {
				return err
			}
			return errors.New("the sync failed")
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		failing = true
		r := &dedupe.Record{Call: dedupe.CallID("t", "r", "tool", "k"), Tenant: "t", Root: "r", Run: "r", Tool: "tool", State: dedupe.Waiting,
			Slot: dedupe.SlotSchedule, Due: time.Now(), Request: &schemas.Request{Run: "r", Key: "k"}}
		if _, err := l.Update(t.Context(), r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r} }); !errors.Is(err, dedupe.ErrUnavailable) {
			t.Fatalf("the failed commit: %v", err)
		}
		before := l.Read()
		failing = false
		time.Sleep(3 * time.Second) // nobody changes anything
		if slots, _, _ := l.Owed(); len(slots) != 1 || l.Read() != before+1 {
			t.Errorf("%d slots owed, the file was read %d times more", len(slots), l.Read()-before)
		}
	})
}

// A result is published and stays owed in the file for a while; a replay takes its
// place, and the process dies. The next one has nothing to publish under that number,
// and must not say for ever that something is owed.
func TestASupersededResultIsOwedToNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	o := bolt.Options{Retention: time.Hour, Create: true}
	l := open(t, path, o)
	r := &dedupe.Record{Call: dedupe.CallID("t", "r", "tool", "k"), Tenant: "t", Root: "r", Run: "r", Tool: "tool", State: dedupe.Done,
		Settled: time.Now(), Outcome: &schemas.Outcome{V: 1, ID: "o"}}
	for _, reopened := range []bool{false, true, false} {
		if _, err := l.Update(t.Context(), r.Ref(), func(v dedupe.View) dedupe.Change {
			if v.Record == nil {
				return dedupe.Change{Record: r, Result: true}
			}
			again := v.Record
			again.State, again.Outcome = dedupe.Done, r.Outcome
			if reopened {
				again.State, again.Outcome = dedupe.Waiting, nil
			}
			return dedupe.Change{Record: again, Result: !reopened}
		}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, path, o)
	}
	defer l.Close()
	_, results, _ := l.Owed()
	if n, _, _ := l.Pending(); n != 1 || len(results) != 1 {
		t.Errorf("%d results pending and %d owed, want the last one", n, len(results))
	}
}
