package control

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/micro"

	"tollgate/dedupe"
	"tollgate/replays"
)

// ReplayName names a bulk replay.
type ReplayName struct {
	Name string `json:"name"`
	Why  string `json:"why,omitempty"`  // of pause, resume, cancel
	From int    `json:"from,omitempty"` // of items: the number of the first
	Only string `json:"only,omitempty"` // of items: those left, replayed, skipped, succeeded or died_again; "": all
}

// ReplaysPage is every bulk replay there is, the newest first.
type ReplaysPage struct {
	Replays []*dedupe.Replay `json:"items"`
}

// replaysVerbs is the verbs of bulk replays and what answers them.
func (s *Server) replaysVerbs() map[string]func(micro.Request) {
	runner := s.cfg.Replays
	return map[string]func(micro.Request){
		VerbReplaysPlan: verb(s, func(ctx context.Context, q replays.Query, by string) (*replays.Plan, error) {
			q.By = by
			return runner.Plan(ctx, q)
		}),
		VerbReplaysCreate: verb(s, func(ctx context.Context, q replays.Query, by string) (*dedupe.Replay, error) {
			q.By = by
			return runner.Create(ctx, q)
		}),
		VerbReplaysList: verb(s, func(context.Context, Empty, string) (ReplaysPage, error) {
			all, err := runner.List()
			return ReplaysPage{Replays: all}, err
		}),
		VerbReplayShow: verb(s, func(_ context.Context, q ReplayName, _ string) (*dedupe.Replay, error) {
			return runner.Show(q.Name)
		}),
		VerbReplayItems: verb(s, func(_ context.Context, q ReplayName, _ string) (replays.Items, error) {
			return runner.Items(q.Name, q.From, q.Only)
		}),
		VerbReplayPause:  verb(s, replayChange(runner.Pause)),
		VerbReplayResume: verb(s, replayChange(runner.Resume)),
		VerbReplayCancel: verb(s, replayChange(runner.Cancel)),
	}
}

func replayChange(do func(ctx context.Context, name, by, why string) (*dedupe.Replay, error)) func(context.Context, ReplayName, string) (*dedupe.Replay, error) {
	return func(ctx context.Context, q ReplayName, by string) (*dedupe.Replay, error) {
		return do(ctx, q.Name, by, q.Why)
	}
}

// replayProblem words what bulk replays refuse, or reports false.
func replayProblem(err error) (Problem, bool) {
	var refused *replays.Refused
	var invalid *replays.Invalid
	switch {
	case errors.As(err, &refused) && refused.Nothing:
		return Problem{Code: 404, What: refused.Error(), Try: refused.Try}, true
	case errors.As(err, &refused):
		return Problem{Code: 409, What: refused.Error(), Try: refused.Try}, true
	case errors.As(err, &invalid):
		return Problem{Code: 400, What: invalid.Error()}, true
	}
	return Problem{}, false
}
