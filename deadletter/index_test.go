package deadletter_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dedupe/bolt"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/schemas"
)

const retention = time.Hour

// history plays what can happen to letters, on a real server and a real ledger file.
type history struct {
	t      testing.TB
	rnd    *rand.Rand
	js     jetstream.JetStream
	stream jetstream.Stream
	ledger *bolt.Ledger
	store  *deadletter.Store
	ops    *deadletter.Operations
	calls  []string
	log    []string

	snapshot string // file of the index
}

func newHistory(t testing.TB, seed uint64) *history {
	dir := t.TempDir()
	h := &history{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), js: natstest.JetStream(t, natstest.Server(t, filepath.Join(dir, "nats")))}
	h.make()
	ledger, err := bolt.Open(filepath.Join(dir, "ledger.db"), bolt.Options{Sync: time.Hour, Retention: retention, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ledger.Close() })
	h.ledger, h.snapshot = ledger, filepath.Join(dir, "letters")
	h.restart()
	return h
}

func (h *history) make() {
	st, err := h.js.CreateStream(context.Background(), jetstream.StreamConfig{Name: "TOLLGATE_DLQ", Subjects: []string{"tollgate.dlq.>"}, AllowDirect: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.stream = st
}

// A stop leaves a snapshot, however few letters came since the start.
func TestAStopLeavesASnapshotOfAFewLetters(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		h := newHistory(t, 1)
		for n := range 20 {
			h.step(n)
		}
		_ = os.Remove(h.snapshot)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.ops.Index.Warm(ctx, 1000*time.Hour, func(err error) { t.Error(err) })
		}()
		time.Sleep(time.Second) // it waits for its next round by then
		_, before := os.Stat(h.snapshot)
		stop()
		<-done
		if _, after := os.Stat(h.snapshot); before == nil || after != nil {
			t.Errorf("before the stop: %v, after it: %v", before, after)
		}
	})
}

// restart is a new process on the same stream and ledger. The one before has left a
// snapshot of its index, or was killed and has not.
func (h *history) restart() {
	if h.ops != nil && h.rnd.IntN(3) > 0 {
		stopped, stop := context.WithCancel(context.Background())
		stop()
		h.ops.Index.Warm(stopped, time.Hour, func(err error) { h.t.Error(err) })
	}
	subjects, _ := schemas.NewSubjects("")
	h.store = deadletter.NewStore(h.js, subjects, "TOLLGATE_DLQ")
	h.ops = &deadletter.Operations{Store: h.store, Index: deadletter.NewIndex(h.store, h.ledger), Ledger: h.ledger, Publisher: published{h.ledger}, Served: func(string) bool { return true }}
	h.ops.Index.File = h.snapshot
}

// published is a publisher whose server stores everything at once.
type published struct{ l *bolt.Ledger }

func (p published) PublishSlot(context.Context, *dedupe.Record) bool { return true }

func (p published) PublishReceipt(_ *dedupe.Record, r dedupe.Receipt) {
	if r.Result != 0 {
		p.l.Published(dedupe.Publication{Result: r.Result})
	}
	for _, a := range r.Audit {
		p.l.Published(dedupe.Publication{Audit: a.Number})
	}
}

var codes = []string{"HTTP_503", "BROKEN", "TIMEOUT"}
var deadReasons = []string{schemas.ReasonFailed, schemas.ReasonExhaustedAttempts, schemas.ReasonUnknownOutcome}

// died is a call that ended badly, in the given generation.
func died(n, generation int, at time.Time) *dedupe.Record {
	tool, run := []string{"crm.find", "crm.upsert", "pay"}[n%3], fmt.Sprintf("r%d/child", n%5)
	key := strconv.Itoa(n)
	call := dedupe.CallID("default", schemas.Root(run), tool, key)
	o := &schemas.Outcome{V: 1, ID: fmt.Sprintf("%s.%d", call, generation), Tenant: "default", Lane: schemas.Calls, Run: run, Tool: tool, Call: call, Generation: generation, Key: key,
		Status: schemas.Failed, IsError: true, NextAction: schemas.Escalate,
		Error: &schemas.Error{Code: codes[n%len(codes)], Class: "permanent", Message: fmt.Sprintf("order %d is not there", n)}, Timing: schemas.Timing{Published: at, Settled: at, Deadline: at.Add(time.Minute)}}
	return &dedupe.Record{Call: call, Tenant: "default", Lane: schemas.Calls, Root: schemas.Root(run), Run: run, Tool: tool, Key: key, DownstreamKey: call, Fingerprint: argumentsPrint,
		State: dedupe.Dead, Generation: generation, Published: at, Deadline: at.Add(time.Minute), Settled: at, Letter: schemas.LetterActive, LetterReason: deadReasons[n%3], Outcome: o,
		Request: &schemas.Request{Header: schemas.Header{schemas.HeaderRun: {run}, schemas.HeaderKey: {key}}, Body: []byte(`{"n":1}`)}}
}

var argumentsPrint = func() string { f, _ := dedupe.Fingerprint([]byte(`{"n":1}`)); return f }()

func (h *history) bury(r *dedupe.Record) {
	stored := *r
	stored.Request = nil
	h.commit(r.Ref(), func(dedupe.View) dedupe.Change { return dedupe.Change{Record: &stored} })
	if err := h.store.Publish(context.Background(), r); err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) commit(ref dedupe.Ref, m dedupe.Mutation) {
	if _, err := h.ledger.Update(context.Background(), ref, m); err != nil {
		h.t.Fatal(err)
	}
}

// some is a letter that may be there, mostly.
func (h *history) some() string {
	if len(h.calls) == 0 || h.rnd.IntN(20) == 0 {
		return "0000000000000000000000000a.0"
	}
	call := h.calls[h.rnd.IntN(len(h.calls))]
	generation := 0
	if r, err := h.ledger.Record(call); err == nil && h.rnd.IntN(4) > 0 {
		generation = r.Generation
	}
	return dedupe.LetterID(call, generation)
}

// step does one thing that can happen.
func (h *history) step(n int) {
	ctx := context.Background()
	id := h.some()
	call, _, _ := dedupe.ParseLetterID(id)
	var err error
	var what string
	switch k := h.rnd.IntN(40); {
	case k < 14:
		what = "dies"
		r := died(n, 0, time.Now())
		h.calls = append(h.calls, r.Call)
		h.bury(r)
	case k < 17:
		what, err = "discard "+id, h.ops.Discard(ctx, id, "ada", "seen")
	case k < 19:
		what, err = "restore "+id, h.ops.Restore(ctx, id, "ada", "again")
	case k < 21:
		what, err = "resolve "+id, h.ops.Resolve(ctx, id, deadletter.ResolveOptions{By: "ada", Verdict: []deadletter.Verdict{deadletter.Happened, deadletter.DidNotHappen, deadletter.Undetermined}[h.rnd.IntN(3)]})
	case k < 23:
		what, err = "purge "+id, h.ops.Purge(ctx, id, deadletter.PurgeOptions{By: "ada", Active: h.rnd.IntN(2) == 0})
	case k < 24:
		what, err = "note "+id, h.ops.Note(ctx, id, "ada", "a note")
	case k < 30:
		what = "goes on " + call
		h.goOn(call)
	case k < 32:
		what = "refused"
		o := &schemas.Outcome{V: 1, ID: fmt.Sprint("refusal.", n), Status: schemas.Rejected, Error: &schemas.Error{Code: schemas.CodeMalformed, Message: "no key"}, Timing: schemas.Timing{Settled: time.Now()}}
		d := dispatcher.Delivery{Tenant: "default", Tool: "pay", Header: schemas.Header{}, Body: []byte("?"), Origin: schemas.Origin{Stream: "TOLLGATE_DLQ", Sequence: uint64(n), Time: time.Now()}}
		err = h.store.PublishRefusal(ctx, d, o, schemas.ReasonMalformed)
	case k < 33:
		what = "forged"
		_, err = h.js.PublishMsg(ctx, &nats.Msg{Subject: "tollgate.dlq.default.failed.pay." + call + "." + strconv.Itoa(h.rnd.IntN(3)), Header: nats.Header{schemas.HeaderDiedAt: {"never"}}})
	case k < 35:
		what = "somebody deletes"
		if last := h.stream.CachedInfo().State.LastSeq; last > 0 {
			_ = h.stream.DeleteMsg(ctx, 1+h.rnd.Uint64N(last))
		}
	default:
		what, err = h.rare()
	}
	h.log = append(h.log, fmt.Sprint(what, " ", err))
	var refused *deadletter.Refused
	if err != nil && !errors.As(err, &refused) && !errors.Is(err, deadletter.ErrNotFound) {
		h.t.Fatalf("%s\n%s", err, strings.Join(h.log, "\n"))
	}
}

// goOn moves a call one state further: replayed, and settled again.
func (h *history) goOn(call string) {
	var letter *dedupe.Record
	h.commit(dedupe.Ref{Tenant: "default", Root: "r0", Call: call}, func(v dedupe.View) dedupe.Change {
		r := v.Record
		letter = nil
		switch {
		case r == nil:
			return dedupe.Change{}
		case r.State.Terminal():
			r.State, r.Generation, r.Letter, r.LetterReason, r.Outcome = dedupe.Waiting, r.Generation+1, "", "", nil
		case r.Generation%2 == 0:
			r.State, r.Settled = dedupe.Done, time.Now()
		default:
			n, _ := strconv.Atoi(r.Key)
			again := died(n, r.Generation, time.Now())
			letter, r.State, r.Letter, r.LetterReason, r.Outcome, r.Settled = again, dedupe.Dead, schemas.LetterActive, again.LetterReason, again.Outcome, again.Settled
		}
		return dedupe.Change{Record: r}
	})
	if letter != nil {
		if err := h.store.Publish(context.Background(), letter); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *history) rare() (string, error) {
	ctx := context.Background()
	switch h.rnd.IntN(8) {
	case 0:
		return "purged by hand", h.stream.Purge(ctx)
	case 1:
		if err := h.js.DeleteStream(ctx, "TOLLGATE_DLQ"); err != nil {
			return "", err
		}
		time.Sleep(time.Millisecond) // in real time no two are made in the same instant
		h.make()
		return "made again", nil
	case 2:
		time.Sleep(retention + 2*time.Second)
		_, err := h.ops.Expire(ctx, retention)
		return "expired", err
	case 3:
		time.Sleep(2*retention + 2*time.Second) // the ledger forgets, the letters stay
		return "forgotten", nil
	case 4:
		return "purged by subject", h.stream.Purge(ctx, jetstream.WithPurgeSubject("tollgate.dlq.*.failed.>"))
	case 5:
		h.restart()
		return "restarted", nil
	}
	time.Sleep(time.Minute)
	return "nothing", nil
}

// scan is every letter as a full look at stream and ledger finds it.
func (h *history) scan() (all []schemas.Letter) {
	if err := h.store.Each(context.Background(), func(l schemas.Letter) {
		r, err := h.ledger.Record(l.Call)
		switch refusal := l.Reason == schemas.ReasonMalformed || l.Reason == schemas.ReasonRejected; {
		case errors.Is(err, dedupe.ErrNotFound) && refusal:
			l.State = schemas.LetterActive
		case errors.Is(err, dedupe.ErrNotFound):
			l.State = schemas.LetterResolved
		case err != nil:
			h.t.Fatal(err)
		case r.Generation == l.Generation && r.Letter != "":
			l.State, l.Note = r.Letter, r.Note
		case r.Generation < l.Generation:
			l.State = schemas.LetterActive // ahead of its call: forged
		case r.State.Terminal() || r.Generation > l.Generation+1:
			l.State = schemas.LetterResolved
		case r.Generation > l.Generation:
			l.State = schemas.LetterReplaying
		}
		l.Outcome, l.Header, l.Arguments = nil, nil, ""
		all = append(all, l)
	}); err != nil {
		h.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// check compares the index with a full look.
func (h *history) check() {
	h.t.Helper()
	ctx := context.Background()
	want := h.scan()
	got, err := h.ops.Index.List(ctx, deadletter.Filter{State: "all", Limit: 1 << 30})
	if err != nil {
		h.t.Fatal(err)
	}
	if a, b := show(got.Letters), show(want); a != b || got.Total != len(want) {
		h.t.Fatalf("the index has\n%s\nand a full look finds\n%s\nafter\n%s", a, b, strings.Join(h.log, "\n"))
	}
	filter, keep := h.filter()
	kept := slices.DeleteFunc(slices.Clone(want), func(l schemas.Letter) bool { return !keep(&l) })
	filter.Limit = 1 << 30
	if got, err = h.ops.Index.List(ctx, filter); err != nil {
		h.t.Fatal(err)
	}
	if a, b := show(got.Letters), show(kept); a != b {
		h.t.Fatalf("with %+v the index has\n%s\nand a full look finds\n%s", filter, a, b)
	}
	h.checkGroups(filter, kept)
	counts, err := h.ops.Index.Counts(ctx)
	if err != nil || counts.Active+counts.Replaying+counts.Resolved+counts.Discarded+counts.Purged != len(want) {
		h.t.Fatalf("counts %+v, %v, of %d", counts, err, len(want))
	}
}

func (h *history) checkGroups(f deadletter.Filter, kept []schemas.Letter) {
	h.t.Helper()
	groups, n, total, err := h.ops.Index.Groups(context.Background(), f, "fingerprint")
	if err != nil {
		h.t.Fatal(err)
	}
	want := map[string]int{}
	for _, l := range kept {
		want[l.Fingerprint]++
	}
	have := map[string]int{}
	for _, g := range groups {
		have[g.ID] = g.Count
	}
	if !maps.Equal(have, want) || n != len(want) || total != len(kept) {
		h.t.Fatalf("groups %v (%d, %d letters), want %v", have, n, total, want)
	}
}

// filter is one of those that the property tries, and what it means.
func (h *history) filter() (deadletter.Filter, func(*schemas.Letter) bool) {
	active := func(l *schemas.Letter) bool { return l.State == schemas.LetterActive }
	since := time.Now().Add(-30 * time.Minute)
	all := []struct {
		f    deadletter.Filter
		keep func(*schemas.Letter) bool
	}{
		{deadletter.Filter{}, active},
		{deadletter.Filter{Tool: "crm.*"}, func(l *schemas.Letter) bool { return active(l) && strings.HasPrefix(l.Tool, "crm.") }},
		{deadletter.Filter{Tool: "pay,crm.find", State: "all"}, func(l *schemas.Letter) bool { return l.Tool == "pay" || l.Tool == "crm.find" }},
		{deadletter.Filter{Reason: "failed,malformed", State: "all"}, func(l *schemas.Letter) bool { return l.Reason == "failed" || l.Reason == "malformed" }},
		{deadletter.Filter{State: "discarded,resolved"}, func(l *schemas.Letter) bool {
			return l.State == schemas.LetterDiscarded || l.State == schemas.LetterResolved
		}},
		{deadletter.Filter{State: "replaying"}, func(l *schemas.Letter) bool { return l.State == schemas.LetterReplaying }},
		{deadletter.Filter{Run: "r1", State: "all"}, func(l *schemas.Letter) bool { return l.Run == "r1/child" }},
		{deadletter.Filter{Code: "BROKEN", Class: "permanent"}, func(l *schemas.Letter) bool { return active(l) && l.Code == "BROKEN" && l.Class == "permanent" }},
		{deadletter.Filter{Error: "ORDER 1", State: "all"}, func(l *schemas.Letter) bool { return strings.Contains(l.Message, "order 1") }},
		{deadletter.Filter{ErrorRE: `^order \d is`, State: "all"}, func(l *schemas.Letter) bool {
			return strings.HasPrefix(l.Message, "order ") && len(l.Message) == len("order 1 is not there")
		}},
		{deadletter.Filter{Replayed: "yes"}, func(l *schemas.Letter) bool { return active(l) && l.Generation > 0 }},
		{deadletter.Filter{Replayed: "<1", Attempts: "0"}, func(l *schemas.Letter) bool { return active(l) && l.Generation == 0 && l.Attempts == 0 }},
		{deadletter.Filter{Since: since, State: "all"}, func(l *schemas.Letter) bool { return !l.DiedAt.Before(since) }},
		{deadletter.Filter{Until: since, State: "all"}, func(l *schemas.Letter) bool { return l.DiedAt.Before(since) }},
		{deadletter.Filter{Key: "7", State: "all"}, func(l *schemas.Letter) bool { return l.Key == "7" }},
	}
	one := all[h.rnd.IntN(len(all))]
	return one.f, one.keep
}

// show is the letters as text, all of each.
func show(letters []schemas.Letter) string {
	var b strings.Builder
	for _, l := range letters {
		l.Deadline, l.DiedAt, l.FirstSeen, l.Origin.Time = l.Deadline.UTC(), l.DiedAt.UTC(), l.FirstSeen.UTC(), l.Origin.Time.UTC()
		fmt.Fprintf(&b, "%+v\n", l)
	}
	return b.String()
}

// The index is what a full look at the stream and the ledger finds, whatever happened
// in between: letters of any kind, decisions, replays, expiry, hands in the stream, a
// stream that is made again, a restart.
func TestTheIndexIsWhatAFullLookFinds(t *testing.T) {
	seeds := 6
	if s := os.Getenv("TOLLGATE_SEEDS"); s != "" {
		seeds, _ = strconv.Atoi(s)
	}
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T) {
				h := newHistory(t, uint64(seed))
				for n := range 120 {
					h.step(n)
					if h.rnd.IntN(3) == 0 {
						h.check()
					}
				}
				h.check()
			})
		})
	}
}

// B31: pages fit together in every order, while letters come.
func TestB31PagesFitTogether(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		h := newHistory(t, 1)
		for n := range 60 {
			h.bury(died(n, 0, time.Now()))
			time.Sleep(time.Second)
		}
		for _, sort := range append([]string{"", "-died", "-tool"}, deadletter.SortKeys...) {
			seen, want := map[string]bool{}, 0
			f := deadletter.Filter{Sort: sort, Limit: 7, Until: time.Now()}
			for pages := 0; ; pages++ {
				p, err := h.ops.Index.List(context.Background(), f)
				if err != nil {
					t.Fatal(err)
				}
				want = p.Total
				for _, l := range p.Letters {
					if seen[l.ID] {
						t.Errorf("sorted by %q: %s is on two pages", sort, l.ID)
					}
					seen[l.ID] = true
				}
				if f.Before = p.Next; p.Next == 0 {
					break
				}
				h.calls = append(h.calls, "")
				h.bury(died(1000+len(h.calls), 0, time.Now()))
				time.Sleep(time.Second)
			}
			if len(seen) != want || want < 60 {
				t.Errorf("sorted by %q: %d letters on the pages, want %d", sort, len(seen), want)
			}
		}
		_, err := h.ops.Index.List(context.Background(), deadletter.Filter{Sort: "tool", Before: 1 << 40})
		var moved *deadletter.Moved
		if !errors.As(err, &moved) {
			t.Errorf("a cursor of no letter: %v", err)
		}
	})
}

// What is answered is never older than the question, and the index is one for many.
func TestTheIndexIsSharedByManyWhoLook(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		h := newHistory(t, 1)
		ctx := context.Background()
		var wg sync.WaitGroup
		for n := range 40 {
			r := died(n, 0, time.Now())
			h.bury(r)
			wg.Go(func() {
				id := r.LetterID()
				for i := range 6 {
					do, want := h.ops.Discard, schemas.LetterDiscarded
					if i%2 == 1 {
						do, want = h.ops.Restore, schemas.LetterActive
					}
					if err := do(ctx, id, "ada", "x"); err != nil {
						t.Error(err)
					}
					p, err := h.ops.Index.List(ctx, deadletter.Filter{State: "all", Call: r.Call})
					if err != nil || len(p.Letters) != 1 || p.Letters[0].State != want {
						t.Errorf("after %s: %+v, %v", want, p.Letters, err)
					}
				}
			})
		}
		wg.Wait()
		h.check()
	})
}

// A mistake in a filter is told, all of them at once.
func TestMistakesInAFilterAreTold(t *testing.T) {
	f := deadletter.Filter{Tool: "[", Reason: "odd", Class: "odd", State: "odd", ErrorRE: "(", Attempts: "many", Replayed: ">", Sort: "odd"}
	err := f.Check()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"glob", "reason", "class", "state", "regular expression", "attempts", "replayed", "sort"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n"); cmp.Compare(n, 7) != 0 {
		t.Errorf("%d problems: %v", n+1, err)
	}
}
