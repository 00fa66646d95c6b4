package app

import (
	"context"
	"time"

	"tollgate/dispatcher"
	"tollgate/internal/history"
)

// observers tell each of them what is decided.
type observers []dispatcher.Observer

func (o observers) Decided(s dispatcher.Sighting) {
	for _, each := range o {
		each.Decided(s)
	}
}

// askEvery is how many looks there are for one that asks the server and goes through
// all letters; the others only look into memory.
const askEvery = 6

// keepHistory looks at how things stand until ctx ends.
func (a *App) keepHistory(ctx context.Context) {
	t := time.NewTicker(history.Fine)
	defer t.Stop()
	g := history.Gauges{}
	for n := 0; ; n++ {
		g.Running, g.Waiting = a.ledger.Counts()
		_, audits, slots := a.ledger.Pending() // results are owed for a while by design
		g.Owed = audits + slots
		if n%askEvery == 0 || g.Queued < 0 || g.Letters < 0 { // or nobody has answered yet
			g.Queued, g.Letters = a.queued(ctx), a.activeLetters(ctx)
		}
		a.history.Look(time.Now(), g)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// queued is how many messages wait to be taken, -1 when the server does not say.
func (a *App) queued(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, history.Fine/2)
	defer cancel()
	all, err := a.consumer.Backlogs(ctx)
	if err != nil {
		return -1
	}
	n := 0
	for _, b := range all {
		n += int(b.Pending)
	}
	return n
}

func (a *App) activeLetters(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, history.Fine/2)
	defer cancel()
	counts, err := a.letters.Index.Counts(ctx)
	if err != nil {
		return -1
	}
	return counts.Active
}
