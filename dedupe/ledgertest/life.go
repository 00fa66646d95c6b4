package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/budget"
	"tollgate/dedupe"
	"tollgate/schemas"
)

func crash(t *testing.T, b *bench) {
	id, epoch := b.ID(), b.Epoch()
	var want []*dedupe.Record
	for i := range 20 {
		r := call(i, []dedupe.State{dedupe.InFlight, dedupe.Waiting, dedupe.Done, dedupe.Dead}[i%4])
		if r.State == dedupe.Dead {
			r.Slot, r.Request = dedupe.SlotLetter, &schemas.Request{Tenant: "t1", Body: []byte(`{"a":1.0}`)}
		}
		if i == 2 { // an outcome kept as history of an earlier generation
			r.Generation = 3
		}
		b.put(r)
		want = append(want, r)
	}
	b.crash()
	for _, r := range want {
		if diff := cmp.Diff(r, b.record(r.Call)); diff != "" {
			t.Errorf("record after the crash (-want +got):\n%s", diff)
		}
	}
	if b.ID() != id || b.Epoch() <= epoch {
		t.Errorf("id %s, epoch %d after id %s, epoch %d", b.ID(), b.Epoch(), id, epoch)
	}
	running, waiting := b.Counts()
	if slots, _, _ := b.Owed(); running != 5 || waiting != 5 || len(slots) != 5 {
		t.Errorf("%d running and %d waiting records, %d that owe something, want 5 each", running, waiting, len(slots))
	}
}

func owing(t *testing.T, b *bench) {
	armed := call(1, dedupe.Waiting)
	armed.Slot = dedupe.SlotSchedule
	b.put(armed)
	done := call(2, dedupe.Done)
	receipt := b.update(done.Ref(), func(dedupe.View) dedupe.Change {
		return dedupe.Change{Record: done, Result: true, Audit: []dedupe.Audit{{Action: "grant", By: "ann"}}}
	})
	want := func(slots, results, audits int) {
		t.Helper()
		s, r, a := b.Owed()
		if len(s) != slots || len(r) != results || len(a) != audits {
			t.Fatalf("owed %d slots, %d results, %d audits, want %d %d %d", len(s), len(r), len(a), slots, results, audits)
		}
		if len(r) > 0 && (r[0].Outcome == nil || r[0].Result != receipt.Result) {
			t.Errorf("owed result %+v", r[0])
		}
		if len(a) > 0 && a[0] != receipt.Audit[0] {
			t.Errorf("owed audit %+v, want %+v", a[0], receipt.Audit[0])
		}
		if b.view(armed.Ref()).Unpublished != (slots > 0) || b.view(done.Ref()).Unpublished != (results > 0) {
			t.Error("View.Unpublished disagrees with what is owed")
		}
	}
	b.crash()
	want(1, 1, 1)
	b.Published(dedupe.Publication{Call: armed.Call, Token: 1, Slot: dedupe.SlotSchedule})
	want(0, 1, 1)
	b.Published(dedupe.Publication{Result: receipt.Result})
	want(0, 0, 1)
	b.crash()
	want(0, 0, 1)
	b.Published(dedupe.Publication{Audit: receipt.Audit[0].Number})
	time.Sleep(2 * time.Second) // no other commit comes along
	b.crash()
	want(0, 0, 0)
	n := b.settle(call(3, dedupe.Done))
	b.Published(dedupe.Publication{Result: n})
	b.restart() // Close writes it down
	want(0, 0, 0)
}

func numbers(t *testing.T, b *bench) {
	last := b.settle(call(1, dedupe.Done))
	b.Published(dedupe.Publication{Result: last})
	for i := range 3 {
		b.restart()
		n := b.settle(call(10+i, dedupe.Done))
		if n <= last {
			t.Errorf("number %d after %d", n, last)
		}
		last = n
	}
}

func newerSlot(t *testing.T, b *bench) {
	r := call(1, dedupe.Waiting)
	r.Slot = dedupe.SlotSchedule
	b.put(r)
	r.Token = 2
	b.put(r)
	for _, old := range []dedupe.Publication{
		{Call: r.Call, Token: 1, Slot: dedupe.SlotSchedule},
		{Call: r.Call, Token: 2, Slot: dedupe.SlotWake},
		{Call: r.Call, Token: 2, Generation: 1, Slot: dedupe.SlotSchedule},
		{Call: r.Call, Token: 2},
	} {
		b.Published(old)
		if !b.view(r.Ref()).Unpublished {
			t.Fatalf("%+v cleared the slot of token 2", old)
		}
	}
	// Re-armed while the publication of the old slot is on its way into the file.
	b.Published(dedupe.Publication{Call: r.Call, Token: 2, Slot: dedupe.SlotSchedule})
	b.update(r.Ref(), func(v dedupe.View) dedupe.Change {
		v.Record.Token, v.Record.Slot = 3, dedupe.SlotSchedule
		return dedupe.Change{Record: v.Record}
	})
	b.crash()
	if got := b.record(r.Call); got.Slot != dedupe.SlotSchedule || got.Token != 3 {
		t.Errorf("slot %v of token %d, want the newer one", got.Slot, got.Token)
	}
	// The same slot owed once more, in the commit that writes the publication.
	b.Published(dedupe.Publication{Call: r.Call, Token: 3, Slot: dedupe.SlotSchedule})
	b.update(r.Ref(), func(v dedupe.View) dedupe.Change {
		v.Record.Slot = dedupe.SlotSchedule
		return dedupe.Change{Record: v.Record}
	})
	if !b.view(r.Ref()).Unpublished {
		t.Error("a slot owed once more was cleared by its first publication")
	}
}

func publishedLetter(t *testing.T, b *bench) {
	r := call(1, dedupe.Dead)
	r.Slot, r.Letter, r.Request = dedupe.SlotLetter, schemas.LetterActive, &schemas.Request{Body: []byte("{}")}
	b.put(r)
	if b.record(r.Call).Request == nil {
		t.Fatal("the request is gone before the letter is stored")
	}
	b.Published(dedupe.Publication{Call: r.Call, Token: 1, Slot: dedupe.SlotLetter})
	time.Sleep(2 * time.Second)
	check := func() {
		t.Helper()
		if got := b.record(r.Call); got.Request != nil || got.Slot != 0 || got.Letter != schemas.LetterActive {
			t.Errorf("record %+v", got)
		}
		if slots, _, _ := b.Owed(); len(slots) > 0 {
			t.Errorf("%s is still owed", slots[0].Call)
		}
	}
	check()
	b.crash()
	check()
}

// A settled record that owes an edited call again holds that call's request, and is
// unpublished, until the call is out.
func editedCall(t *testing.T, b *bench) {
	r := call(1, dedupe.Dead)
	r.Letter = schemas.LetterActive
	b.put(r)
	b.update(r.Ref(), func(v dedupe.View) dedupe.Change {
		v.Record.Letter, v.Record.EditedTo, v.Record.Slot = schemas.LetterResolved, "another", dedupe.SlotEdit
		v.Record.Request = &schemas.Request{Body: []byte(`{"n":2}`), Header: schemas.Header{schemas.HeaderReplayOf: {r.LetterID()}}}
		return dedupe.Change{Record: v.Record}
	})
	b.Published(dedupe.Publication{Call: r.Call, Token: 1, Slot: dedupe.SlotLetter}) // of the letter, late
	b.crash()
	slots, _, _ := b.Owed()
	if len(slots) != 1 || slots[0].Slot != dedupe.SlotEdit || slots[0].Request == nil || string(slots[0].Request.Body) != `{"n":2}` || !b.view(r.Ref()).Unpublished {
		t.Fatalf("after a crash %+v is owed", slots)
	}
	b.Published(dedupe.Publication{Call: r.Call, Token: 1, Slot: dedupe.SlotEdit})
	time.Sleep(2 * time.Second)
	b.crash()
	if got := b.record(r.Call); got.Request != nil || got.Slot != 0 || got.EditedTo != "another" || b.view(r.Ref()).Unpublished {
		t.Errorf("record %+v", got)
	}
}

func expiry(t *testing.T, b *bench) {
	r := call(1, dedupe.Done)
	run := budget.New("t1", "r1", time.Now())
	run.Used = time.Now()
	b.update(r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r, Run: run} })
	time.Sleep(Retention - time.Minute)
	b.record(r.Call)
	b.restart()
	b.record(r.Call)
	time.Sleep(2 * time.Minute) // idle
	if !b.gone(r.Call) {
		t.Error("the record outlives its retention")
	}
	if v := b.view(r.Ref()); v.Record != nil || v.Run != nil {
		t.Errorf("after expiry a mutation sees %+v", v)
	}
	b.crash()
	if !b.gone(r.Call) {
		t.Error("expired in memory only")
	}
}

func pending(t *testing.T, b *bench) {
	waiting, letter := call(1, dedupe.Waiting), call(2, dedupe.Dead)
	letter.Slot = dedupe.SlotLetter // not stored yet
	b.put(letter)
	b.update(waiting.Ref(), func(dedupe.View) dedupe.Change {
		return dedupe.Change{Record: waiting, Run: budget.New("t1", "r1", time.Now())}
	})
	time.Sleep(10 * Retention)
	b.record(waiting.Call)
	b.record(letter.Call)
	if b.view(waiting.Ref()).Run == nil {
		t.Error("the run of a live call expired")
	}
}

func pinning(t *testing.T, b *bench) {
	r := call(1, dedupe.Dead)
	r.Letter = schemas.LetterActive
	run := budget.New("t1", "r1", time.Now())
	b.update(r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: r, Run: run} })
	for i := range 40 { // the pinned one must not hold these up
		b.put(call(100+i, dedupe.Done))
	}
	time.Sleep(3*Retention + time.Minute)
	b.restart()
	time.Sleep(3*Retention + time.Minute)
	for i := range 40 {
		if !b.gone(call(100+i, dedupe.Done).Call) {
			t.Fatal("a settled call behind a pinned one did not expire")
		}
	}
	v := b.view(r.Ref())
	if v.Record == nil || v.Run == nil {
		t.Fatalf("a live letter lost its record or run: %+v", v)
	}
	if commits := b.Commits(); commits > 20 {
		t.Errorf("%d commits in three idle retentions: pinned records are written over and over", commits)
	}
	b.update(r.Ref(), func(v dedupe.View) dedupe.Change {
		v.Record.Letter, v.Record.LetterSettled = schemas.LetterResolved, time.Now().UTC()
		return dedupe.Change{Record: v.Record}
	})
	time.Sleep(Retention - time.Minute)
	b.record(r.Call)
	time.Sleep(2 * Retention)
	if v := b.view(r.Ref()); v.Record != nil || v.Run != nil {
		t.Errorf("a resolved letter is kept: %+v", v)
	}
}

func owedStays(t *testing.T, b *bench) {
	r := call(1, dedupe.Done)
	n := b.settle(r)
	time.Sleep(3 * Retention)
	if _, results, _ := b.Owed(); len(results) != 1 {
		t.Fatal("the result expired before it was published")
	}
	b.Published(dedupe.Publication{Result: n})
	time.Sleep(2 * Retention)
	if !b.gone(r.Call) {
		t.Error("kept although published")
	}
}

func reopened(t *testing.T, b *bench) {
	r := call(1, dedupe.Dead)
	r.Letter = schemas.LetterActive
	b.put(r)
	b.update(r.Ref(), func(v dedupe.View) dedupe.Change {
		v.Record.State, v.Record.Generation, v.Record.Letter = dedupe.Waiting, 1, schemas.LetterReplaying
		v.Record.Slot = dedupe.SlotWake
		return dedupe.Change{Record: v.Record}
	})
	b.crash()
	_, live := b.Counts()
	if got := b.record(r.Call); live != 1 || got.State != dedupe.Waiting || got.Outcome.Generation != 0 {
		t.Errorf("%d live, record %+v", live, got)
	}
	_, err := b.Update(context.Background(), r.Ref(), func(v dedupe.View) dedupe.Change {
		v.Record.State, v.Record.Slot, v.Record.Settled = dedupe.Done, 0, time.Now()
		v.Record.Letter = schemas.LetterResolved
		return dedupe.Change{Record: v.Record}
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * Retention)
	if !b.gone(r.Call) {
		t.Error("a copy of the record stayed behind")
	}
}

func waitingCalls(t *testing.T, b *bench) {
	now := time.Now()
	for n := range 6 {
		r := call(n, dedupe.Waiting)
		r.Due = now.Add(time.Duration(n) * time.Minute)
		if n%2 == 0 {
			r.Slot = dedupe.SlotSchedule // not published yet
		}
		if n == 5 {
			r.Run, r.Root = "r2", "r2"
		}
		b.put(r)
	}
	b.put(call(6, dedupe.InFlight))
	check := func() {
		t.Helper()
		if got := b.Waiting("t1", "r1"); len(got) != 5 {
			t.Errorf("%d calls of r1 wait, want 5", len(got))
		}
		if got := b.Waiting("t1", "r2"); len(got) != 1 || got[0] != call(5, dedupe.Waiting).Call {
			t.Errorf("calls of r2 that wait: %v", got)
		}
		if got := b.Waiting("t2", "r1"); len(got) != 0 {
			t.Errorf("calls of another tenant's run: %v", got)
		}
		if got := b.Overdue(now.Add(3 * time.Minute)); len(got) != 3 {
			t.Errorf("%d calls are due within three minutes, want 3", len(got))
		}
		running := 0
		b.Running(func(r *dedupe.Record) bool { running++; return true })
		if got, waiting := b.Counts(); running != 1 || got != 1 || waiting != 6 {
			t.Errorf("%d records given as running, %d counted, %d waiting", running, got, waiting)
		}
	}
	check()
	b.crash()
	check()
	b.update(call(1, dedupe.Waiting).Ref(), func(v dedupe.View) dedupe.Change {
		v.Record.Run, v.Record.Root = "r2", "r2" // another run pays from now on
		return dedupe.Change{Record: v.Record}
	})
	if one, two := b.Waiting("t1", "r1"), b.Waiting("t1", "r2"); len(one) != 4 || len(two) != 2 {
		t.Errorf("after a move %d calls of r1 and %d of r2 wait, want 4 and 2", len(one), len(two))
	}
}
