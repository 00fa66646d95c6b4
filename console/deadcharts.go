package console

import (
	"fmt"
	"strings"
	"time"

	"tollgate/deadletter"
)

// bars is a small chart of counts. The template draws it.
type bars struct {
	Width, Height int
	Bars          []bar
	Most          int
	Text          string // what it shows, in words
	From, To      string // below its ends
	Left          int    // letters that died before it begins
	Path          string // all bars as one shape, where there are many such charts
}

type bar struct {
	X, Y, Width, Height int
	N                   int
	At                  time.Time
	Href                string
}

// sparkline draws the letters of the last hours, the oldest first.
func sparkline(hours []int) bars {
	const width, gap, height = 5, 1, 22
	b := bars{Width: len(hours) * (width + gap), Height: height}
	sum := 0
	for _, n := range hours {
		b.Most = max(b.Most, n)
		sum += n
	}
	var path strings.Builder
	for i, n := range hours {
		h := tall(n, b.Most, height)
		fmt.Fprintf(&path, "M%d %dv-%dh%dv%dz", i*(width+gap), height, h, width, h)
	}
	b.Path = path.String()
	b.Text = fmt.Sprintf("%d in the last %d hours", sum, len(hours))
	if sum > 0 {
		b.Text += fmt.Sprintf(", %d in this one, at most %d an hour", hours[len(hours)-1], b.Most)
	}
	return b
}

// tall is the height of a bar: what is not nothing can be seen, nothing is a line.
func tall(n, most, height int) int {
	if n == 0 {
		return 1
	}
	return max(3, n*height/most)
}

// mostHours is how many hours a histogram has at most: a week.
const mostHours = 168

// histogram draws groups by hour, the newest first as they come, on one scale of time.
// Each bar leads to the letters of its hour.
func histogram(groups []deadletter.Group, total int, link func(since, until time.Time) string) bars {
	const height = 80
	b := bars{Height: height, Left: total}
	hours := map[time.Time]int{}
	var first, last time.Time
	for _, g := range groups {
		hour, err := time.Parse(time.RFC3339, g.ID)
		if err != nil || !last.IsZero() && last.Sub(hour) >= mostHours*time.Hour {
			continue
		}
		if last.IsZero() {
			last = hour
		}
		first, hours[hour] = hour, g.Count
		b.Most = max(b.Most, g.Count)
		b.Left -= g.Count
	}
	if last.IsZero() {
		return b
	}
	if day := last.Add(-23 * time.Hour); first.After(day) {
		first = day // one hour alone would fill the chart
	}
	span := int(last.Sub(first)/time.Hour) + 1
	step := max(4, min(24, 720/span))
	b.Width = span * step
	for hour := last; !hour.Before(first); hour = hour.Add(-time.Hour) {
		n := hours[hour]
		if n == 0 {
			continue
		}
		h := tall(n, b.Most, height)
		b.Bars = append(b.Bars, bar{X: int(hour.Sub(first)/time.Hour) * step, Y: height - h, Width: step - 1, Height: h, N: n, At: hour, Href: link(hour, hour.Add(time.Hour))})
	}
	b.From, b.To = iso(first), iso(last.Add(time.Hour))
	b.Text = fmt.Sprintf("Dead letters by the hour they died in, %s to %s, at most %d an hour", b.From, b.To, b.Most)
	return b
}
