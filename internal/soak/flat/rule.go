package flat

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Rule says when a quantity counts as flat. The points after the warm-up are put
// into windows; the median of each stands for it, so that a peak after a restart
// weighs nothing; through the medians goes the line of the median slope (Theil and
// Sen), which a third of bad windows do not move. The line may rise by so much.
type Rule struct {
	WarmUp  time.Duration // what is earlier is not judged
	Until   time.Duration // nor what is later: the load has ended; 0: all is judged
	Window  time.Duration
	Percent float64       // of the median, in ten minutes
	Least   time.Duration // a span shorter than this is too short to be judged
}

// per is the span that slopes are told for.
const per = 10 * time.Minute

// Verdict is what the rule says of one series.
type Verdict struct {
	Series Series
	Judged bool    // false: too short, or free to grow
	Flat   bool    // nothing to complain about
	Median float64 // of the windows
	Growth float64 // of the line in ten minutes
	Limit  float64 // of Growth
}

func (v Verdict) String() string {
	word := "flat"
	switch {
	case !v.Judged && v.Series.Free:
		word = "free to grow"
	case !v.Judged:
		word = "too short to be judged"
	case !v.Flat:
		word = "GROWS"
	}
	return fmt.Sprintf("%-44s median %9s, %+9s in 10 min (limit %s): %s", v.Series.What, amount(v.Median, v.Series.Unit),
		amount(v.Growth, v.Series.Unit), amount(v.Limit, v.Series.Unit), word)
}

// Judge holds every series of a table against the rule.
func (r Rule) Judge(t *Table) []Verdict {
	var all []Verdict
	for i, s := range t.Series {
		all = append(all, r.judge(s, t.Points[i]))
	}
	return all
}

func (r Rule) judge(s Series, points []Point) Verdict {
	v := Verdict{Series: s, Flat: true}
	windows := r.windows(points)
	if len(windows) < 3 {
		v.Flat = s.Free || len(points) > 0 // what was never measured is not flat
		v.Judged = !v.Flat
		return v
	}
	values := make([]float64, len(windows))
	for i, w := range windows {
		values[i] = w.Value
	}
	v.Median = median(values)
	v.Growth = Slope(windows) * per.Seconds()
	v.Limit = max(s.Slack, v.Median*r.Percent/100)
	v.Judged = !s.Free && windows[len(windows)-1].At-windows[0].At >= r.Least
	v.Flat = !v.Judged || v.Growth <= v.Limit
	return v
}

// windows is the median of each window after the warm-up.
func (r Rule) windows(points []Point) (out []Point) {
	for i := 0; i < len(points); {
		n := points[i].At / r.Window
		var values []float64
		for ; i < len(points) && points[i].At/r.Window == n; i++ {
			values = append(values, points[i].Value)
		}
		if start := n * r.Window; start >= r.WarmUp && (r.Until == 0 || start+r.Window <= r.Until) {
			out = append(out, Point{start + r.Window/2, median(values)})
		}
	}
	return out
}

// Slope is the median of the slopes through all pairs of points, a second.
func Slope(points []Point) float64 {
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if d := (b.At - a.At).Seconds(); d > 0 {
				slopes = append(slopes, (b.Value-a.Value)/d)
			}
		}
	}
	return median(slopes)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// amount writes a quantity for people.
func amount(v float64, unit string) string {
	if unit != "B" {
		return fmt.Sprintf("%.4g%s", v, unit)
	}
	for _, u := range []string{"B", "KiB", "MiB"} {
		if math.Abs(v) < 1024 {
			return fmt.Sprintf("%.4g %s", v, u)
		}
		v /= 1024
	}
	return fmt.Sprintf("%.4g GiB", v)
}
