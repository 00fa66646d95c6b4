package replays

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// What an item's status is when its outcome cannot be read any more.
const (
	statusForgotten schemas.Status = "forgotten"      // the record has expired
	statusReplaced  schemas.Status = "replayed_again" // it had died again, and somebody replayed that letter
)

// load reads the replay and its letters, and counts. It reports success.
func (w *worker) load(now time.Time) bool {
	replay, err := w.cfg.Ledger.Replay(w.name)
	if errors.Is(err, dedupe.ErrNotFound) { // forgotten
		replay, err = &dedupe.Replay{State: dedupe.ReplayDone, Rate: 1}, nil
	}
	w.tally, w.left, w.open = dedupe.ReplayTally{}, nil, nil
	if err == nil && replay.Name != "" {
		err = w.cfg.Ledger.ReplayItems(w.name, 0, func(i dedupe.ReplayItem) bool {
			w.take(i, now)
			return true
		})
	}
	if err != nil {
		w.trouble(err)
		return false
	}
	w.replay, w.skipped = replay, maps.Clone(replay.Skipped)
	if w.skipped == nil {
		w.skipped = map[string]int{}
	}
	burst := max(1, int(math.Ceil(replay.Rate/10))) // a tenth of a second is made up for, and no more
	w.limit = rate.NewLimiter(rate.Limit(replay.Rate), burst)
	w.limit.ReserveN(now, burst-1)
	w.unsaved = w.tally != replay.Tally
	return true
}

func (w *worker) take(i dedupe.ReplayItem, now time.Time) {
	switch {
	case i.State == dedupe.ItemLeft:
		w.left = append(w.left, i)
	case i.State == dedupe.ItemReplayed && i.Status == "":
		w.tally.Replayed++
		w.open = append(w.open, underway{item: i, due: now})
	case i.State == dedupe.ItemReplayed:
		w.tally.Replayed++
		w.tallyOutcome(i.Status)
	}
}

// reload reads what an operator has changed. What cannot be read is read again in a
// moment, however often somebody pokes meanwhile.
func (w *worker) reload() {
	replay, err := w.cfg.Ledger.Replay(w.name)
	w.stale = false
	switch {
	case err == nil:
		w.replay = replay
	case errors.Is(err, dedupe.ErrNotFound):
		w.replay = &dedupe.Replay{State: dedupe.ReplayDone}
	default:
		w.trouble(err)
		w.stale, w.reread = true, time.Now().Add(trouble)
	}
}

// send replays the next n letters together.
func (w *worker) send(ctx context.Context, n int) {
	now := time.Now()
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if w.reader == nil {
		var err error
		if w.reader, err = w.cfg.Letters.Store.Reader(work); err != nil {
			w.trouble(err)
			return
		}
	}
	w.limit.ReserveN(now, n)
	batch := w.left[:n]
	w.left = w.left[n:]
	errs := make([]error, n)
	var sending sync.WaitGroup
	for i := range batch {
		batch[i].At = now
		sending.Go(func() { errs[i] = w.sendOne(work, batch[i]) })
	}
	sending.Wait()
	var back []dedupe.ReplayItem
	for i, item := range batch {
		if !w.sent(item, errs[i], now) {
			back = append(back, item)
		}
	}
	if len(back) > 0 {
		w.left = append(back, w.left...)
		w.reader = nil
	} else {
		w.problem = ""
	}
	w.unsaved = true
}

func (w *worker) sendOne(ctx context.Context, item dedupe.ReplayItem) error {
	item.State = dedupe.ItemReplayed
	err := w.cfg.Letters.ReplayItem(ctx, w.reader, options(w.replay), dedupe.ReplayMark{Replay: w.name, Item: item})
	var refused *deadletter.Refused
	if errors.As(err, &refused) && refused.Conflict && w.noted(item.N) {
		return nil // it was ours: a commit that was reported as failed is in the file
	}
	return err
}

// noted reports whether the ledger says that a letter was replayed by this replay.
func (w *worker) noted(n int) (replayed bool) {
	err := w.cfg.Ledger.ReplayItems(w.name, n, func(i dedupe.ReplayItem) bool {
		replayed = i.N == n && i.State == dedupe.ItemReplayed
		return false
	})
	return err == nil && replayed
}

// sent counts what became of one letter. It reports false for one that was not tried:
// what kept it back has nothing to do with it.
func (w *worker) sent(item dedupe.ReplayItem, err error, now time.Time) bool {
	var refused *deadletter.Refused
	switch {
	case err == nil:
		item.State = dedupe.ItemReplayed
		w.tally.Replayed++
		w.open = append(w.open, underway{item: item, due: now.Add(LookAgain(0))})
	case errors.As(err, &refused) && refused.Again && w.patient(item, now):
	case errors.As(err, &refused):
		w.skip(item, refused.Why)
	case errors.Is(err, deadletter.ErrNotFound):
		w.skip(item, "the letter is gone")
	default:
		w.trouble(err)
		return false
	}
	return true
}

// patient puts a letter aside to be tried again, unless that has gone on for long.
func (w *worker) patient(item dedupe.ReplayItem, now time.Time) bool {
	since, tried := w.since[item.N]
	if !tried {
		since = now
		w.since[item.N] = now
	}
	if now.Sub(since) > patience {
		return false
	}
	w.later = append(w.later, deferred{item: item, due: now.Add(trouble)})
	return true
}

func (w *worker) skip(item dedupe.ReplayItem, why string) {
	item.State, item.Why, item.At = dedupe.ItemSkipped, why, time.Time{}
	skip(w.skipped, why)
	w.dirty = append(w.dirty, item)
}

// look asks the ledger what became of the letters that are under way and due.
func (w *worker) look(now time.Time) {
	open := w.open[:0]
	for _, u := range w.open {
		if now.Before(u.due) {
			open = append(open, u)
			continue
		}
		status := w.outcome(u.item)
		if status == "" {
			u.due = now.Add(LookAgain(now.Sub(u.item.At)))
			open = append(open, u)
			continue
		}
		u.item.Status = status
		w.tallyOutcome(status)
		w.dirty = append(w.dirty, u.item)
		w.unsaved = true
	}
	w.open = open
}

// outcome is the status of the generation that was opened, "" while there is none.
func (w *worker) outcome(i dedupe.ReplayItem) schemas.Status {
	call, generation, err := dedupe.ParseLetterID(i.Letter)
	if err != nil {
		return statusForgotten
	}
	r, err := w.cfg.Letters.Ledger.Record(call)
	switch opened := generation + 1; {
	case errors.Is(err, dedupe.ErrNotFound):
		return statusForgotten
	case err != nil:
		w.trouble(err)
		return ""
	case r.Generation > opened:
		return statusReplaced
	case r.Generation == opened && r.State.Terminal() && r.Outcome != nil:
		return r.Outcome.Status
	}
	return ""
}

func (w *worker) tallyOutcome(s schemas.Status) {
	switch s {
	case schemas.Succeeded:
		w.tally.Succeeded++
	case statusForgotten:
		w.tally.Forgotten++
	default:
		w.tally.DiedAgain++
	}
}

func (w *worker) counts() string {
	return fmt.Sprintf("replayed %d, succeeded %d, died again %d, left %d", w.tally.Replayed, w.tally.Succeeded, w.tally.DiedAgain, len(w.left)+len(w.later))
}
