package console

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The plot's own coordinates. It is stretched to its place, so there is no text in it:
// labels stand around it, as large as any other.
const (
	plotWide = 1000
	plotHigh = 200
)

// series is one quantity over time. A value that is not a number is not known.
type series struct {
	Name   string
	Class  string // its colour and dashes in the style sheet
	Values []float64
}

// plot is what is drawn: a value of each series for each step.
type plot struct {
	Name, Title string
	From, Until time.Time
	Started     time.Time // before it nothing is known
	At          []time.Time
	Span        []time.Duration
	Series      []series
	Stacked     bool // as bars on top of each other, else as lines
	Format      func(float64) string
}

// chart is a plot as the template draws it.
type chart struct {
	Name, Title, Desc string
	Top, Half         string
	Ticks             []string
	Legend            []legend
	Bars              []box
	Lines             []line
	Tips              []box // of each step, for a pointer that rests on it
	Before            float64
}

type legend struct{ Class, Name, Now string }

type box struct {
	X, Y, W, H float64
	Class, Tip string
}

type line struct{ Class, D string }

// chart lays the plot out.
func (p *plot) chart() *chart {
	top := nice(p.highest())
	c := &chart{Name: p.Name, Title: p.Title, Top: p.Format(top), Half: p.Format(top / 2)}
	for _, t := range []time.Time{p.From, p.From.Add(p.Until.Sub(p.From) / 2), p.Until} {
		c.Ticks = append(c.Ticks, t.UTC().Format("15:04")+" UTC")
	}
	if p.Started.After(p.From) {
		c.Before = p.x(p.Started)
	}
	for i := range p.At {
		x, w := p.column(i)
		c.Tips = append(c.Tips, box{X: x, W: w, H: plotHigh, Tip: p.tip(i)})
		if p.Stacked {
			c.Bars = append(c.Bars, p.stack(i, x, w, top)...)
		}
	}
	for _, s := range p.Series {
		c.Legend = append(c.Legend, legend{s.Class, s.Name, p.last(s)})
		if !p.Stacked {
			c.Lines = append(c.Lines, line{s.Class, p.path(s, top)})
		}
	}
	c.Desc = p.describe()
	return c
}

// x is where an instant stands.
func (p *plot) x(t time.Time) float64 {
	return round(min(1, max(0, float64(t.Sub(p.From))/float64(p.Until.Sub(p.From)))) * plotWide)
}

func (p *plot) column(i int) (x, w float64) {
	x = p.x(p.At[i])
	return x, max(1, round(p.x(p.At[i].Add(p.Span[i]))-x))
}

// stack is the bars of one step, the first series at the bottom.
func (p *plot) stack(i int, x, w, top float64) (bars []box) {
	y := float64(plotHigh)
	for _, s := range p.Series {
		if v := s.Values[i]; v > 0 {
			h := v / top * plotHigh
			y -= h
			bars = append(bars, box{X: x, Y: round(y), W: max(1, round(w-1)), H: max(1, round(h)), Class: s.Class})
		}
	}
	return bars
}

// path is a series as a line, interrupted where nothing is known.
func (p *plot) path(s series, top float64) string {
	var d strings.Builder
	move := "M"
	for i, v := range s.Values {
		if math.IsNaN(v) {
			move = "M"
			continue
		}
		x, w := p.column(i)
		y := round(plotHigh - v/top*plotHigh)
		fmt.Fprintf(&d, "%s%g %gH%g", move, x, y, round(x+w))
		move = "L"
	}
	return d.String()
}

func (p *plot) tip(i int) string {
	parts := []string{p.At[i].UTC().Format("15:04:05") + " UTC"}
	for _, s := range p.Series {
		parts = append(parts, s.Name+" "+p.format(s.Values[i]))
	}
	return strings.Join(parts, ", ")
}

func (p *plot) last(s series) string {
	if len(s.Values) == 0 {
		return "–"
	}
	return p.format(s.Values[len(s.Values)-1])
}

func (p *plot) format(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return p.Format(v)
}

// describe says in words what the picture shows.
func (p *plot) describe() string {
	if len(p.At) == 0 {
		return "Nothing is recorded yet."
	}
	var parts []string
	for _, s := range p.Series {
		high := math.Inf(-1)
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				high = max(high, v)
			}
		}
		if !math.IsInf(high, -1) {
			parts = append(parts, fmt.Sprintf("%s: at most %s, at last %s", s.Name, p.Format(high), p.last(s)))
		}
	}
	if len(parts) == 0 {
		return "There is nothing to show in this window."
	}
	return strings.Join(parts, "; ") + "."
}

// highest is what has to fit.
func (p *plot) highest() (high float64) {
	for i := range p.At {
		sum := 0.0
		for _, s := range p.Series {
			if v := s.Values[i]; !math.IsNaN(v) {
				sum += v
				if !p.Stacked {
					high = max(high, v)
				}
			}
		}
		if p.Stacked {
			high = max(high, sum)
		}
	}
	return high
}

// nice is the next round number above v.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if v <= m*unit {
			return m * unit
		}
	}
	return v
}

func round(v float64) float64 { return math.Round(v*10) / 10 }
