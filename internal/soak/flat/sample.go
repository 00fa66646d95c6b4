// Package flat judges whether what a long run measured stays flat, and draws it: a
// table of samples, the rule, and a picture in one file.
//
// It measures nothing itself and knows nothing of what the numbers mean.
package flat

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Series is one quantity, as it is named, drawn and judged.
type Series struct {
	Name string // of the column
	What string // above its curve
	Unit string // "" counts; "B" is bytes
	Free bool   // grows by design: drawn, never judged

	// Slack is what the quantity may grow in ten minutes whatever its size: below it
	// a relative limit judges noise.
	Slack float64
}

// Point is one quantity at one instant of the run.
type Point struct {
	At    time.Duration
	Value float64
}

// Event is what was done to the run at an instant; one with a length has an Until.
type Event struct {
	At, Until time.Duration
	Kind      string
}

// Table is everything a run has measured.
type Table struct {
	Series []Series
	Points [][]Point // by series, each in order of time
	Events []Event
}

// NewTable is an empty table of these quantities.
func NewTable(series ...Series) *Table {
	return &Table{Series: series, Points: make([][]Point, len(series))}
}

// Add adds one measurement. What was not measured just then is left out.
func (t *Table) Add(series int, at time.Duration, value float64) {
	t.Points[series] = append(t.Points[series], Point{at, value})
}

// WriteCSV writes the points and the events: a row for each, in the order of the
// series.
func (t *Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"seconds", "what", "value"}}
	for i, s := range t.Series {
		for _, p := range t.Points[i] {
			rows = append(rows, []string{seconds(p.At), s.Name, strconv.FormatFloat(p.Value, 'f', -1, 64)})
		}
	}
	for _, e := range t.Events {
		rows = append(rows, []string{seconds(e.At), "event: " + e.Kind, seconds(max(0, e.Until-e.At))})
	}
	if err := c.WriteAll(rows); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) }
