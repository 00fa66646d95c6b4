package console

import (
	"math"
	"strings"
	"testing"
	"time"
)

// steps is a plot of one step a minute.
func steps(stacked bool, s ...series) *plot {
	from := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	p := &plot{Name: "x", Title: "X", From: from, Until: from.Add(time.Duration(len(s[0].Values)) * time.Minute), Series: s, Stacked: stacked, Format: number}
	for i := range s[0].Values {
		p.At, p.Span = append(p.At, from.Add(time.Duration(i)*time.Minute)), append(p.Span, time.Minute)
	}
	return p
}

// A bar is as high as its value, and stands on the one below it.
func TestBarsStandOnEachOther(t *testing.T) {
	c := steps(true, series{Class: "a", Values: []float64{5, 0}}, series{Class: "b", Values: []float64{5, 2}}).chart()
	if c.Top != "10" || len(c.Bars) != 3 {
		t.Fatalf("top %s, %d bars", c.Top, len(c.Bars))
	}
	a, b := c.Bars[0], c.Bars[1]
	if a.Y != 100 || a.H != 100 || b.Y != 0 || b.H != 100 || b.X != a.X || c.Bars[2].X != 500 {
		t.Errorf("%+v", c.Bars)
	}
}

// Nothing known is a gap, and not a zero.
func TestWhatIsNotKnownIsAGap(t *testing.T) {
	c := steps(false, series{Name: "n", Values: []float64{1, math.NaN(), 1}}).chart()
	if d := c.Lines[0].D; strings.Count(d, "M") != 2 || strings.Contains(d, "NaN") {
		t.Error(d)
	}
	none := steps(false, series{Name: "n", Values: []float64{math.NaN()}}).chart()
	if none.Desc != "There is nothing to show in this window." || none.Legend[0].Now != "–" {
		t.Errorf("%+v", none)
	}
}

// What was before the start is marked, and a start before the window is not.
func TestTheStartIsMarked(t *testing.T) {
	p := steps(false, series{Values: []float64{1, 1, 1, 1}})
	p.Started = p.From.Add(time.Minute)
	if c := p.chart(); c.Before != 250 {
		t.Errorf("the start stands at %v", c.Before)
	}
	p.Started = p.From.Add(-time.Minute)
	if c := p.chart(); c.Before != 0 {
		t.Errorf("a start before the window stands at %v", c.Before)
	}
}

func TestNiceTops(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, .03: .05, 1: 1, 1.1: 2, 30: 50, 501: 1000} {
		if got := nice(v); math.Abs(got-want) > want/1e6 {
			t.Errorf("above %v comes %v, want %v", v, got, want)
		}
	}
}
