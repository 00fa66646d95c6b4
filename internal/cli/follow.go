package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate/control"
	"tollgate/dedupe"
)

// errWaited is the cause of a context that ends because it was not to be followed
// for longer.
var errWaited = errors.New("waited long enough")

// followEvery is how often a followed replay is asked for.
const followEvery = 200 * time.Millisecond

// follow shows how far a bulk replay is until it is over or has stopped, and all its
// outcomes are there. It goes on without whoever follows it: an interrupt detaches.
func (s *shell) follow(ctx context.Context, b *dedupe.Replay) (*dedupe.Replay, error) {
	p := s.progress("replayed", b.Matched)
	defer p.end()
	for !settledReplay(b) {
		select {
		case <-ctx.Done():
			return b, s.detach(ctx, p, b)
		case <-time.After(followEvery):
		}
		next, err := ask[dedupe.Replay](ctx, s, control.VerbReplayShow, control.ReplayName{Name: b.Name})
		switch {
		case ctx.Err() != nil:
			return b, s.detach(ctx, p, b)
		case err != nil && !answered(err):
			p.end()
			s.say("replay %s goes on by itself when its dispatcher is there: tollgate replays watch %s", b.Name, b.Name)
			return b, err
		case err != nil:
			return b, err
		}
		b = &next
		now := time.Now()
		p.done = b.Tally.Replayed + b.SkippedCount()
		p.show(now, func() string { return replayText(b, now) })
	}
	return b, nil
}

// detach says how to go on with a replay that is not followed any more.
func (s *shell) detach(ctx context.Context, p *progress, b *dedupe.Replay) error {
	p.end()
	s.say("replay %s goes on: %d of %d replayed", b.Name, b.Tally.Replayed, b.Matched)
	s.next("tollgate replays watch "+b.Name, "tollgate replays pause "+b.Name, "tollgate replays cancel "+b.Name)
	return context.Cause(ctx)
}

// settledReplay reports whether there is nothing to follow: only an operator could make
// something happen.
func settledReplay(b *dedupe.Replay) bool {
	return b.Tally.Open() == 0 && (b.State.Terminal() || b.State == dedupe.ReplayStopped)
}

// replayText is one line about how far a bulk replay is.
func replayText(b *dedupe.Replay, now time.Time) string {
	done := b.Tally.Replayed + b.SkippedCount()
	t := fmt.Sprintf("%s %d/%d  ok %d  died again %d", b.Name, done, b.Matched, b.Tally.Succeeded, b.Tally.DiedAgain)
	if n := b.SkippedCount(); n > 0 {
		t += fmt.Sprintf("  skipped %d", n)
	}
	switch {
	case b.Trouble != "":
		t += "  waits: " + oneLine(b.Trouble)
	case b.State != dedupe.ReplayRunning:
		t += "  " + string(b.State)
	case b.Left == 0:
		t += fmt.Sprintf("  %d without an outcome", b.Tally.Open())
	default:
		t += fmt.Sprintf("  %g/s  about %s left", b.Rate, brief(time.Duration(float64(b.Left)/b.Rate*float64(time.Second))))
	}
	return t
}

// printReplayed says what a bulk replay has come to.
func (s *shell) printReplayed(b *dedupe.Replay) {
	took := ""
	if !b.Ended.IsZero() {
		took = " in " + brief(b.Ended.Sub(b.Created))
	}
	s.line("replay %s %s%s: replayed %d of %d", b.Name, b.State, took, b.Tally.Replayed, b.Matched)
	s.line("  %d succeeded, %d died again, %d skipped, %d still running, %d not replayed", b.Tally.Succeeded, b.Tally.DiedAgain, b.SkippedCount(), b.Tally.Open(), b.Left)
	s.printSkipped(b.Skipped)
	if b.State == dedupe.ReplayStopped {
		s.line("  stopped: %s", oneLine(b.Reason))
	}
	s.next(replayNext(b)...)
}

// replayNext is what one would type now.
func replayNext(b *dedupe.Replay) []string {
	next := []string{"tollgate replays show " + b.Name}
	if b.Tally.DiedAgain > 0 {
		next = []string{"tollgate dlq ls --replay " + b.Name}
	}
	switch b.State {
	case dedupe.ReplayRunning:
		next = append(next, "tollgate replays watch "+b.Name, "tollgate replays pause "+b.Name)
	case dedupe.ReplayPaused, dedupe.ReplayStopped:
		next = append(next, "tollgate replays resume "+b.Name, "tollgate replays cancel "+b.Name)
	}
	return next
}
