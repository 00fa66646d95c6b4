package flat

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"time"
)

// The measures of the picture: two columns of small curves over one another.
const (
	columns               = 2
	cellWidth, cellHeight = 560.0, 170.0
	left, right           = 64.0, 16.0 // of a curve, inside its cell
	top, bottom           = 26.0, 34.0
	header                = 74.0
)

// Kind is how one kind of event is drawn.
type Kind struct{ Name, Colour string }

// Plot is a table as a picture.
type Plot struct {
	Title, Subtitle string
	Rule            Rule
	Kinds           []Kind // in the order of the legend; other events are not drawn
}

// Write writes the picture as one SVG that needs nothing else.
func (p Plot) Write(w io.Writer, t *Table) error {
	var b bytes.Buffer
	rows := (len(t.Series) + columns - 1) / columns
	width, height := columns*cellWidth, header+float64(rows)*cellHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" font-family="sans-serif" font-size="11" fill="#333">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="16" y="24" font-size="17" font-weight="bold">%s</text><text x="16" y="42">%s</text>`+"\n",
		html.EscapeString(p.Title), html.EscapeString(p.Subtitle))
	p.legend(&b, t)
	verdicts, end := p.Rule.Judge(t), length(t)
	for i, s := range t.Series {
		c := cell{x: float64(i%columns) * cellWidth, y: header + float64(i/columns)*cellHeight, end: end, top: ceiling(t.Points[i], s.Unit)}
		c.frame(&b, s, verdicts[i])
		c.events(&b, t.Events, p.Kinds)
		c.shade(&b, 0, min(p.Rule.WarmUp, end))
		if until := p.Rule.Until; until > 0 && until < end {
			c.shade(&b, max(until, p.Rule.WarmUp), end)
		}
		c.curve(&b, t.Points[i])
	}
	b.WriteString("</svg>\n")
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

func (p Plot) legend(b *bytes.Buffer, t *Table) {
	x := 16.0
	for _, k := range p.Kinds {
		n := 0
		for _, e := range t.Events {
			if e.Kind == k.Name {
				n++
			}
		}
		label := fmt.Sprintf("%s (%d)", k.Name, n)
		fmt.Fprintf(b, `<rect x="%.1f" y="54" width="10" height="10" fill="%s"/><text x="%.1f" y="63">%s</text>`+"\n", x, k.Colour, x+14, html.EscapeString(label))
		x += 30 + 6.2*float64(len(label))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="63" fill="#888">grey: not judged</text>`+"\n", x)
}

// cell is the place of one curve: time to the right, the quantity upwards from 0.
type cell struct {
	x, y float64
	end  time.Duration
	top  float64
}

func (c cell) px(at time.Duration) float64 {
	return c.x + left + (cellWidth-left-right)*at.Seconds()/max(1, c.end.Seconds())
}

func (c cell) py(v float64) float64 {
	return c.y + cellHeight - bottom - (cellHeight-top-bottom)*v/c.top
}

func (c cell) frame(b *bytes.Buffer, s Series, v Verdict) {
	growth := fmt.Sprintf(": %+.3g%% in 10 min", 100*v.Growth/max(1e-9, v.Median))
	colour, word := "#2a7d2a", "flat"+growth
	switch {
	case !v.Judged:
		colour, word = "#888", "not judged"
	case !v.Flat:
		colour, word = "#c00000", "grows"+growth
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-weight="bold">%s</text>`, c.x+left, c.y+16, html.EscapeString(s.What))
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end" fill="%s">%s</text>`+"\n", c.x+cellWidth-right, c.y+16, colour, word)
	for _, share := range []float64{0, 0.5, 1} {
		y := c.py(share * c.top)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			c.x+left, c.x+cellWidth-right, y, y, c.x+left-6, y+4, amount(share*c.top, s.Unit))
	}
	step := tick(c.end)
	for at := time.Duration(0); at <= c.end; at += step {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, c.px(at), c.y+cellHeight-bottom+20, clock(at))
	}
	b.WriteByte('\n')
}

// shade marks what is not judged.
func (c cell) shade(b *bytes.Buffer, from, to time.Duration) {
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#888" fill-opacity="0.13"/>`+"\n",
		c.px(from), c.y+top, max(0, c.px(to)-c.px(from)), cellHeight-top-bottom)
}

// events are ticks below the curve, a line of their own for each kind; a spell is a
// band over it.
func (c cell) events(b *bytes.Buffer, events []Event, kinds []Kind) {
	for _, e := range events {
		i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == e.Kind })
		if i < 0 {
			continue
		}
		x, foot := c.px(e.At), c.y+cellHeight-bottom
		if e.Until > e.At {
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="0.35"/>`+"\n", x, c.y+top, max(1, c.px(e.Until)-x), foot-c.y-top, kinds[i].Colour)
		}
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x, x, foot, foot+8, kinds[i].Colour)
	}
}

func (c cell) curve(b *bytes.Buffer, points []Point) {
	b.WriteString(`<polyline fill="none" stroke="#1f4e9c" stroke-width="1" points="`)
	for _, p := range points {
		fmt.Fprintf(b, "%.1f,%.1f ", c.px(p.At), c.py(p.Value))
	}
	b.WriteString(`"/>` + "\n")
}

func length(t *Table) (end time.Duration) {
	for _, points := range t.Points {
		if n := len(points); n > 0 {
			end = max(end, points[n-1].At)
		}
	}
	return end
}

// ceiling is a round number above all points; of bytes, in the unit they are told in.
func ceiling(points []Point, unit string) float64 {
	most, scale := 1.0, 1.0
	for _, p := range points {
		most = max(most, p.Value)
	}
	for unit == "B" && most/scale >= 1024 {
		scale *= 1024
	}
	step := scale * math.Pow(10, math.Floor(math.Log10(most/scale)))
	return math.Ceil(most/step*2) / 2 * step
}

// tick is a round step that gives some six to twelve labels.
func tick(end time.Duration) time.Duration {
	for _, d := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute} {
		if end/d <= 10 {
			return d
		}
	}
	return time.Hour
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
