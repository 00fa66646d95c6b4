package replays

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollgate/deadletter"
	"tollgate/dedupe"
)

// Defaults and bounds of a bulk replay.
const (
	DefaultInFlight  = 200
	DefaultStopAbove = 0.1
	MaxRate          = 10000 // letters a second
	MaxInFlight      = 10000

	manyLetters = 100 // from so many on, a replay that names no rate is slow
	slowly      = 10
	quickly     = 100
)

// Query asks for a bulk replay, or for what it would do.
type Query struct {
	Filter    deadletter.Filter `json:"filter"`        // its Limit takes the oldest; its Before freezes the set
	IDs       []string          `json:"ids,omitempty"` // instead of the filter: letters by their whole ID
	Name      string            `json:"name,omitempty"`
	Rate      float64           `json:"rate,omitempty"`      // letters a second; 0: 10 for more than 100 letters, else 100
	InFlight  int               `json:"in_flight,omitempty"` // 0: 200
	Canary    int               `json:"canary,omitempty"`
	StopAbove *float64          `json:"stop_above,omitempty"` // share of the outcomes that died again; nil: 0.1
	AtMost    int               `json:"at_most,omitempty"`    // letters that were confirmed; 0: any number
	deadletter.ReplayOptions
}

// Invalid is a query that cannot be carried out by anybody.
type Invalid struct{ problems error }

func (i *Invalid) Error() string { return strings.ReplaceAll(i.problems.Error(), "\n", "; ") }

func (q *Query) check() error {
	p := []error{q.Filter.Check()}
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			p = append(p, fmt.Errorf(format, args...))
		}
	}
	add(q.Name != "" && !dedupe.ValidReplayName(q.Name), "name %q: up to 64 letters, digits, - and _, beginning with a letter or digit", q.Name)
	add(!(q.Rate >= 0 && q.Rate <= MaxRate), "rate %g: up to %d a second", q.Rate, MaxRate) // not a number is neither
	add(q.InFlight < 0 || q.InFlight > MaxInFlight, "in_flight %d: 1 to %d", q.InFlight, MaxInFlight)
	add(q.Canary < 0, "canary %d: a number of letters", q.Canary)
	add(q.StopAbove != nil && !(*q.StopAbove >= 0 && *q.StopAbove <= 1), "stop_above: a share between 0 and 1")
	add(q.Window < 0, "window %s: time from now", q.Window)
	add(q.AtMost < 0, "at_most %d: a number of letters", q.AtMost)
	if err := errors.Join(p...); err != nil {
		return &Invalid{err}
	}
	return nil
}

// replay is the bulk replay that the query asks for, of so many letters.
func (q *Query) replay(letters int, now time.Time) dedupe.Replay {
	r := dedupe.Replay{Name: q.Name, State: dedupe.ReplayRunning, Scope: q.scope(), By: q.By, Why: q.Why, Created: now, Changed: now,
		Rate: q.Rate, InFlight: q.InFlight, Canary: min(q.Canary, letters), StopAbove: DefaultStopAbove,
		Grant: q.Grant, NewRun: q.NewRun, Window: q.Window, IncludeUnknown: q.IncludeUnknown, Left: letters, Skipped: map[string]int{}}
	if r.Rate == 0 {
		if r.Rate = quickly; letters > manyLetters {
			r.Rate = slowly
		}
	}
	if r.InFlight == 0 {
		r.InFlight = DefaultInFlight
	}
	if q.StopAbove != nil {
		r.StopAbove = *q.StopAbove
	}
	return r
}

// options are how each letter is replayed.
func options(r *dedupe.Replay) deadletter.ReplayOptions {
	return deadletter.ReplayOptions{By: r.By, Why: r.Why, Grant: r.Grant, NewRun: r.NewRun, Window: r.Window, IncludeUnknown: r.IncludeUnknown}
}

// scope words the filter, so that whoever sees the replay knows what it took.
func (q *Query) scope() string {
	if len(q.IDs) > 0 {
		return "letters named by ID"
	}
	f := q.Filter
	f.Before = 0
	text, err := json.Marshal(f)
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil || len(fields) == 0 {
		return "every active letter"
	}
	var words []string
	for name, value := range fields {
		words = append(words, fmt.Sprintf("%s=%v", name, value))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}
