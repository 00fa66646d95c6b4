package console

import (
	"fmt"
	"math"
	"time"

	"tollgate/control"
	"tollgate/schemas"
)

// kinds are what the outcomes of a chart are told apart by. The table beside it has
// every status.
var kinds = []struct {
	name, class string
	of          []schemas.Status
}{
	{"succeeded", "s-good", []schemas.Status{schemas.Succeeded}},
	{"answered otherwise", "s-busy", []schemas.Status{schemas.ToolError, schemas.Repair, schemas.Rejected, schemas.Cancelled}},
	{"not done", "s-warn", []schemas.Status{schemas.Unavailable, schemas.Exhausted, schemas.Failed}},
	{"unknown", "s-bad", []schemas.Status{schemas.UnknownOutcome}},
}

func frequency(p *control.HistoryPoint, of []schemas.Status) float64 {
	n := 0
	for _, s := range of {
		n += p.Outcomes[s]
	}
	if p.SpanMS <= 0 {
		return 0
	}
	return float64(n) * 1000 / float64(p.SpanMS)
}

// charts draws a history: what was done, how long it took, what waits, and what died.
func charts(h *control.History) []*chart {
	base := plot{From: h.From, Until: h.Until, Started: h.Started}
	for _, p := range h.Points {
		base.At = append(base.At, p.At)
		base.Span = append(base.Span, time.Duration(p.SpanMS)*time.Millisecond)
	}
	of := func(name, class string, value func(*control.HistoryPoint) float64) series {
		s := series{Name: name, Class: class}
		for i := range h.Points {
			s.Values = append(s.Values, value(&h.Points[i]))
		}
		return s
	}
	timed := func(name, class string, ms func(*control.HistoryPoint) float64) series {
		return of(name, class, func(p *control.HistoryPoint) float64 {
			if p.Timed == 0 {
				return math.NaN()
			}
			return ms(p)
		})
	}
	seen := func(name, class string, n func(*control.HistoryPoint) int) series {
		return of(name, class, func(p *control.HistoryPoint) float64 {
			if n(p) < 0 {
				return math.NaN()
			}
			return float64(n(p))
		})
	}
	var outcomes []series
	for _, k := range kinds {
		outcomes = append(outcomes, of(k.name, k.class, func(p *control.HistoryPoint) float64 { return frequency(p, k.of) }))
	}
	draw := func(name, title string, stacked bool, format func(float64) string, s ...series) *chart {
		p := base
		p.Name, p.Title, p.Stacked, p.Format, p.Series = name, title, stacked, format, s
		return p.chart()
	}
	return []*chart{
		draw("outcomes", "Outcomes", true, perSecond, outcomes...),
		draw("latency", "From publish to outcome", false, latency,
			timed("half within", "s-good", func(p *control.HistoryPoint) float64 { return p.P50MS }),
			timed("95 % within", "s-busy", func(p *control.HistoryPoint) float64 { return p.P95MS }),
			timed("99 % within", "s-warn", func(p *control.HistoryPoint) float64 { return p.P99MS })),
		draw("backlog", "Backlog", false, number,
			seen("not taken yet", "s-busy", func(p *control.HistoryPoint) int { return p.Queued }),
			seen("waiting for a retry", "s-warn", func(p *control.HistoryPoint) int { return p.Waiting }),
			seen("running", "s-good", func(p *control.HistoryPoint) int { return p.Running })),
		draw("dead", "Dead letters", false, number, seen("active", "s-bad", func(p *control.HistoryPoint) int { return p.Letters })),
	}
}

func perSecond(v float64) string {
	switch {
	case v == 0:
		return "0/s"
	case v < 0.1:
		return fmt.Sprintf("%.2g/s", v)
	case v < 10:
		return fmt.Sprintf("%.1f/s", v)
	}
	return fmt.Sprintf("%.0f/s", v)
}

func number(v float64) string {
	if v != math.Trunc(v) {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// latency is milliseconds as people say them.
func latency(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return brief(time.Duration(ms) * time.Millisecond)
}
