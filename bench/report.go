package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is everything that was found: the JSON file is this, the table a part of it.
type report struct {
	About machine `json:"about"`
	Rows  []row   `json:"rows"`
}

// row is one contender; its numbers are medians of its turns.
type row struct {
	Name       string          `json:"name"`
	Durability string          `json:"durability"`
	Way        way             `json:"tollgate,omitempty"`
	Extra      bool            `json:"other_work"` // not compared
	Ratio      map[way]float64 `json:"tollgate_faster,omitempty"`
	turn
	Turns []turn `json:"turns"`
}

func summarise(c contender, turns []turn) row {
	pick := func(f func(turn) float64) float64 {
		var all []float64
		for _, t := range turns {
			all = append(all, f(t))
		}
		return median(all)
	}
	idle := 0
	for _, t := range turns {
		idle += t.IdleJobs
	}
	return row{Name: c.Name, Durability: c.Durability, Way: c.Way, Extra: c.Extra, Turns: turns, turn: turn{
		JobsPerS:  pick(func(t turn) float64 { return t.JobsPerS }),
		StartedMS: pick(func(t turn) float64 { return t.StartedMS }),
		SettledMS: pick(func(t turn) float64 { return t.SettledMS }),
		FsyncMS:   pick(func(t turn) float64 { return t.FsyncMS }),
		IdleJobs:  idle,
	}}
}

// ratios puts beside each peer how many times faster Tollgate was, round by round:
// what slowed a round down did so to both.
func (r *report) ratios() error {
	type kind struct {
		durability string
		way        way
	}
	own := map[kind]row{}
	for _, row := range r.Rows {
		if row.Way != "" {
			own[kind{row.Durability, row.Way}] = row
		}
	}
	for i, peer := range r.Rows {
		if peer.Way != "" || peer.Extra {
			continue
		}
		r.Rows[i].Ratio = map[way]float64{}
		for _, by := range []way{published, requested} {
			mine, ok := own[kind{peer.Durability, by}]
			if !ok || len(mine.Turns) != len(peer.Turns) {
				return fmt.Errorf("%s has no Tollgate beside it whose calls are %s", peer.Name, by)
			}
			var all []float64
			for n, t := range peer.Turns {
				all = append(all, mine.Turns[n].JobsPerS/t.JobsPerS)
			}
			r.Rows[i].Ratio[by] = median(all)
		}
	}
	return nil
}

// write leaves both files and prints the table.
func (r report) write(out string) error {
	if err := r.ratios(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	var table strings.Builder
	r.table(&table)
	fmt.Print(table.String())
	return errors.Join(os.MkdirAll(filepath.Dir(out), 0o755),
		os.WriteFile(out+".json", append(text, '\n'), 0o644), os.WriteFile(out+".md", []byte(table.String()), 0o644))
}

// table is Markdown: the section of the README is what it prints.
func (r report) table(w io.Writer) {
	fmt.Fprintln(w, "| | calls/s | Tollgate is faster by | and by request by | idle: handler starts | idle: end is stored |")
	fmt.Fprintln(w, "|---|--:|--:|--:|--:|--:|")
	heading := ""
	for _, row := range r.Rows {
		if row.Durability != heading {
			heading = row.Durability
			fmt.Fprintf(w, "| *%s* | | | | | |\n", heading)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", row.Name, thousands(row.JobsPerS), times(row.Ratio[published]), times(row.Ratio[requested]), latency(row.StartedMS), latency(row.SettledMS))
	}
	fmt.Fprintf(w, "\n%s\n", r.About.words())
}

func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f ×", ratio)
}

func latency(ms float64) string {
	switch {
	case ms == 0:
		return ""
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}

func thousands(x float64) string {
	s := strconv.Itoa(int(x + 0.5))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
