package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

func items(n int) []dedupe.ReplayItem {
	all := make([]dedupe.ReplayItem, n)
	for i := range all {
		all[i] = dedupe.ReplayItem{N: i, Letter: fmt.Sprintf("letter%d.0", i), Sequence: uint64(i + 1), State: dedupe.ItemLeft}
	}
	return all
}

func stored(t *testing.T, l *bolt.Ledger, name string, from int) (all []dedupe.ReplayItem) {
	t.Helper()
	if err := l.ReplayItems(name, from, func(i dedupe.ReplayItem) bool {
		all = append(all, i)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// A bulk replay and its frozen set are there after a restart as they were made.
func TestABulkReplayIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l := open(t, path, bolt.Options{Create: true})
	made := dedupe.Replay{State: dedupe.ReplayRunning, Scope: "tool=x", By: "ann", Created: time.Unix(1, 0).UTC(), Rate: 2.5, Left: 10000, Matched: 10001, Skipped: map[string]int{"it is gone": 1}}
	name, receipt, err := l.CreateReplay(t.Context(), made, items(10000), dedupe.Audit{Action: "replays_create"})
	if err != nil || name != "r-1" || len(receipt.Audit) != 1 || receipt.Audit[0].Target != "replay r-1" || receipt.Audit[0].Number == 0 {
		t.Fatalf("%s, %+v, %v", name, receipt, err)
	}
	if _, _, err := l.CreateReplay(t.Context(), dedupe.Replay{Name: "r-2"}, nil); err != nil {
		t.Fatal(err)
	}
	if name, _, err := l.CreateReplay(t.Context(), dedupe.Replay{}, nil); err != nil || name != "r-3" { // r-2 is taken
		t.Fatalf("%s, %v", name, err)
	}
	if _, _, err := l.CreateReplay(t.Context(), dedupe.Replay{Name: "r-1"}, items(3)); !errors.Is(err, dedupe.ErrExists) {
		t.Fatalf("the same name again: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, bolt.Options{})
	made.Name = "r-1"
	got, err := l.Replay("r-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&made, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(items(10000), stored(t, l, "r-1", 0)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(items(10000)[9000:], stored(t, l, "r-1", 9000)); diff != "" {
		t.Error(diff)
	}
	if all, err := l.Replays(); err != nil || len(all) != 3 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := l.DropReplay(t.Context(), "r-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Replay("r-1"); !errors.Is(err, dedupe.ErrNotFound) {
		t.Errorf("after it was dropped: %v", err)
	}
	if err := l.ReplayItems("r-1", 0, func(dedupe.ReplayItem) bool { return true }); !errors.Is(err, dedupe.ErrNotFound) {
		t.Errorf("its items: %v", err)
	}
	if err := l.DropReplay(t.Context(), "r-1"); err != nil {
		t.Errorf("dropped twice: %v", err)
	}
}

// An item is marked in the commit that changes its record, or not at all.
func TestALetterAndItsMarkAreOneCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l, err := bolt.OpenFaulty(path, bolt.Options{Create: true, Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	name, _, err := l.CreateReplay(t.Context(), dedupe.Replay{}, items(2))
	if err != nil {
		t.Fatal(err)
	}
	replay := func() error {
		r := settled(0)
		r.Replay = name
		item := items(2)[1]
		item.State = dedupe.ItemReplayed
		_, err := l.Update(t.Context(), r.Ref(), func(dedupe.View) dedupe.Change {
			return dedupe.Change{Record: r, Mark: &dedupe.ReplayMark{Replay: name, Item: item}}
		})
		return err
	}
	l.FailCommits(errors.New("no room"))
	if err := replay(); !errors.Is(err, dedupe.ErrUnavailable) {
		t.Fatalf("a commit that fails: %v", err)
	}
	if got := stored(t, l.Ledger, name, 0); got[1].State != dedupe.ItemLeft {
		t.Errorf("marked by a commit that failed: %+v", got)
	}
	l.FailCommits(nil)
	if err := replay(); err != nil {
		t.Fatal(err)
	}
	got := stored(t, l.Ledger, name, 0)
	if r, err := l.Record(settled(0).Call); err != nil || r.Replay != name || got[0].State != dedupe.ItemLeft || got[1].State != dedupe.ItemReplayed {
		t.Errorf("record %+v, %v, items %+v", r, err, got)
	}
	if err := l.DropReplay(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := replay(); err != nil {
		t.Errorf("a mark of a replay that is forgotten: %v", err)
	}
}

// Operators and the dispatcher change it at the same time; neither undoes the other.
func TestChangesOfABulkReplaySeeEachOther(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), bolt.Options{Create: true})
	name, _, err := l.CreateReplay(t.Context(), dedupe.Replay{State: dedupe.ReplayRunning}, items(1))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	const each = 200
	for range 2 {
		go func() {
			var err error
			for range each {
				_, e := l.UpdateReplay(context.Background(), name, func(r *dedupe.Replay) dedupe.ReplayChange {
					r.Tally.Replayed++
					return dedupe.ReplayChange{Replay: r, Items: []dedupe.ReplayItem{{N: 0, State: dedupe.ItemReplayed, Status: schemas.Succeeded}}}
				})
				err = errors.Join(err, e)
			}
			done <- err
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Replay(name); err != nil || r.Tally.Replayed != 2*each {
		t.Errorf("%+v, %v", r, err)
	}
	if got := stored(t, l, name, 0); got[0].Status != schemas.Succeeded {
		t.Errorf("%+v", got)
	}
	if _, err := l.UpdateReplay(t.Context(), "nobody", func(r *dedupe.Replay) dedupe.ReplayChange {
		if r != nil {
			t.Errorf("%+v", r)
		}
		return dedupe.ReplayChange{}
	}); err != nil {
		t.Error(err)
	}
	if _, err := l.UpdateReplay(t.Context(), name, func(*dedupe.Replay) dedupe.ReplayChange { panic("no") }); !errors.Is(err, dedupe.ErrUnavailable) {
		t.Errorf("a mutation that panics: %v", err)
	}
}

// A file of an earlier version has no bulk replays; a making that was cut off leaves none.
func TestFilesWithoutBulkReplays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	l := open(t, path, bolt.Options{Create: true})
	if err := l.DropBucket("replays"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, bolt.Options{})
	if all, err := l.Replays(); err != nil || len(all) != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := l.HalfAReplay("half"); err != nil {
		t.Fatal(err)
	}
	if all, err := l.Replays(); err != nil || len(all) != 0 {
		t.Errorf("while it is made: %+v, %v", all, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, bolt.Options{})
	if name, _, err := l.CreateReplay(t.Context(), dedupe.Replay{Name: "half"}, nil); err != nil || name != "half" {
		t.Errorf("its name is not free: %v", err)
	}
}
