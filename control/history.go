package control

import (
	"context"
	"time"

	"tollgate/internal/history"
)

// VerbHistory asks how the last minutes or hours went: HistoryQuery → History.
const VerbHistory = "history"

// mostSteps bounds an answer, which has to fit a message.
const mostSteps = 1500

// HistoryQuery names a window that ends now, and how finely it is told.
type HistoryQuery struct {
	Window time.Duration `json:"window,omitempty"` // 0: an hour; at most a day
	Step   time.Duration `json:"step,omitempty"`   // 0: a 120th of the window; at least 10 s, and a minute in more than an hour
}

// History is what the dispatcher remembers of a window. It is in its memory only and
// begins anew at its start.
type History = history.Series

// HistoryPoint is one step of it.
type HistoryPoint = history.Point

func (s *Server) history(_ context.Context, q HistoryQuery, _ string) (History, error) {
	if q.Window == 0 {
		q.Window = time.Hour
	}
	if q.Window < 0 || q.Window > history.Longest {
		return History{}, bad("a window of %s: the history goes back a day", q.Window)
	}
	finest := history.Fine
	if q.Window > history.FineFor {
		finest = history.Coarse
	}
	if q.Step == 0 {
		q.Step = max(finest, (q.Window / 120).Truncate(finest))
	}
	if q.Step < finest || q.Window/q.Step > mostSteps {
		return History{}, bad("steps of %s: a window of %s has none below %s", q.Step, q.Window, finest)
	}
	return s.cfg.History(time.Now(), q.Window, q.Step), nil
}
