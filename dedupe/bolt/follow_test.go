package bolt_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

// Whoever follows hears of every record that a commit changes, before the change is
// answered, and of those that expire; and Standing says what Record says.
func TestFollowersHearOfEveryChangedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		l := open(t, filepath.Join(t.TempDir(), "ledger.db"), bolt.Options{Retention: time.Hour, Create: true, Commit: func(commit func() error) error {
			err := commit()
			if fail.Load() {
				return errors.Join(err, errors.New("it was made, and looks failed"))
			}
			return err
		}})
		defer l.Close()
		var mu sync.Mutex // guards what follows: the writer commits by itself, too
		var heard []string
		all := 0
		l.Follow(func(calls []string) {
			mu.Lock()
			defer mu.Unlock()
			if calls == nil {
				all++
			}
			heard = append(heard, calls...)
		})
		forget := func() {
			mu.Lock()
			defer mu.Unlock()
			heard = nil
		}
		was := func() ([]string, int) {
			mu.Lock()
			defer mu.Unlock()
			return heard, all
		}
		set := func(call string, state dedupe.State, letter schemas.LetterState) error {
			_, err := l.Update(context.Background(), dedupe.Ref{Tenant: "t", Root: "r", Call: call}, func(dedupe.View) dedupe.Change {
				return dedupe.Change{Record: &dedupe.Record{Call: call, Tenant: "t", Run: "r", Root: "r", Lane: schemas.Calls, State: state, Letter: letter, Note: "why", Generation: 2, Settled: time.Now()}}
			})
			return err
		}
		for _, c := range []struct {
			call   string
			state  dedupe.State
			letter schemas.LetterState
		}{{"a", dedupe.Dead, schemas.LetterActive}, {"b", dedupe.Waiting, ""}, {"a", dedupe.Dead, schemas.LetterDiscarded}, {"c", dedupe.InFlight, ""}} {
			forget()
			if err := set(c.call, c.state, c.letter); err != nil {
				t.Fatal(err)
			}
			if calls, _ := was(); !slices.Equal(calls, []string{c.call}) {
				t.Errorf("%s changed and %v was heard", c.call, calls)
			}
			s, err := l.Standing(c.call)
			r, _ := l.Record(c.call)
			if err != nil || s != r.Standing() || s.State != c.state || s.Letter != c.letter || s.Note != "why" || s.Generation != 2 {
				t.Errorf("standing %+v, %v; record %+v", s, err, r)
			}
		}
		if _, err := l.Standing("nobody"); !errors.Is(err, dedupe.ErrNotFound) {
			t.Errorf("nobody: %v", err)
		}
		fail.Store(true)
		if err := set("d", dedupe.Dead, schemas.LetterActive); !errors.Is(err, dedupe.ErrUnavailable) {
			t.Fatalf("the commit did not look failed: %v", err)
		}
		fail.Store(false)
		err := set("e", dedupe.Dead, "")
		if _, n := was(); err != nil || n != 1 {
			t.Errorf("after a commit of unknown end %d times everything was doubtful, want 1 (%v)", n, err)
		}
		if _, err := l.Standing("d"); err != nil {
			t.Errorf("what the failed commit has made: %v", err)
		}
		forget()
		time.Sleep(time.Hour + 5*time.Second)
		if calls, _ := was(); !slices.Contains(calls, "a") {
			t.Errorf("a discarded letter's record expired, and %v was heard", calls)
		}
	})
}

// What is noted about a group outlives a restart, until it is taken away.
func TestRemarksAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var audits int
	for round, set := range []*dedupe.Remark{{At: at, By: "ada", Text: "INC-412"}, nil} {
		l, err := bolt.Open(path, bolt.Options{Retention: time.Hour, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if have := len(l.Remarks()); have != round {
			t.Errorf("%d remarks at start %d", have, round)
		}
		receipt, err := l.SetRemark(context.Background(), "g-1", set, dedupe.Audit{At: at, Action: "note", Target: "group g-1"})
		audits += len(receipt.Audit)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := l.Remarks()["g-1"]; ok != (set != nil) || ok && !(got.At.Equal(at) && got.By == "ada" && got.Text == "INC-412") {
			t.Errorf("remark %+v, %v", got, ok)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if audits != 2 {
		t.Errorf("%d audit entries", audits)
	}
}
