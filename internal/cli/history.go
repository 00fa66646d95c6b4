package cli

import (
	"context"
	"fmt"
	"time"

	"tollgate/control"
	"tollgate/schemas"
)

// historyRows is how many lines a history has at most, about.
const historyRows = 12

// history shows how the window went, in a few steps.
func (s *shell) history(ctx context.Context, window time.Duration) error {
	if window < time.Minute || window > 24*time.Hour {
		return usage(fmt.Sprintf("--history %s is not a window", window), "between 1m and 24h, such as 1h")
	}
	finest := 10 * time.Second
	if window > time.Hour {
		finest = time.Minute
	}
	h, err := ask[control.History](ctx, s, control.VerbHistory, control.HistoryQuery{Window: window, Step: max(finest, (window / historyRows).Truncate(finest))})
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON("History", h)
	}
	g := &grid{heads: []string{"FROM", "OUTCOMES", "A SECOND", "SUCCEEDED", "UNKNOWN", "P50", "P95", "P99", "QUEUED", "RUNNING", "WAITING", "LETTERS"}}
	for i := range h.Points {
		g.add(historyRow(s.at(h.Points[i].At), &h.Points[i])...)
	}
	g.add(historyRow("all", &h.Whole)...)
	s.printGrid(g)
	if h.Started.After(h.From) {
		s.say("The dispatcher remembers this in memory only; it was started %s.", s.ago(h.Started))
	}
	return nil
}

func historyRow(from string, p *control.HistoryPoint) []string {
	row := []string{from, fmt.Sprint(p.Total()), fmt.Sprintf("%.1f", p.PerSecond()), share(p), fmt.Sprint(p.Outcomes[schemas.UnknownOutcome])}
	for _, ms := range []float64{p.P50MS, p.P95MS, p.P99MS} {
		if p.Timed == 0 {
			row = append(row, "-")
			continue
		}
		row = append(row, brief(time.Duration(ms*float64(time.Millisecond))))
	}
	for _, n := range []int{p.Queued, p.Running, p.Waiting, p.Letters} {
		if n < 0 {
			row = append(row, "?") // it could not be read
			continue
		}
		row = append(row, fmt.Sprint(n))
	}
	return row
}

// share is how many of the outcomes are successes.
func share(p *control.HistoryPoint) string {
	if p.Total() == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(p.Outcomes[schemas.Succeeded])/float64(p.Total()))
}
