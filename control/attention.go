package control

import (
	"fmt"
	"strings"
	"time"

	"tollgate/deadletter"
	"tollgate/schemas"
)

// Attention is one thing that somebody should look at.
type Attention struct {
	Kind string `json:"kind"` // one of the kinds below
	What string `json:"what"` // a sentence
	Name string `json:"name,omitempty"`
	Try  string `json:"try"` // a command that helps
}

// The kinds of what should be looked at, the worst first.
const (
	UnknownOutcomes = "unknown_outcomes"
	NotReady        = "not_ready"
	BreakerOpen     = "breaker" // Name: the dependency
	StreamFull      = "stream"  // Name: the stream
	OldLetter       = "old_letter"
	NotStored       = "not_stored"
	ToolPaused      = "paused" // Name: the tool
	ClockOff        = "clock"
)

// From when on something is worth a look: as in the alerts of deploy/prometheus.
const (
	fullFrom  = 0.8 // of a stream's bytes
	oldFrom   = 24 * time.Hour
	offFrom   = time.Second
	stuckFrom = 5 * time.Minute // of publications that the server has not stored
)

// attention tells what of a status somebody should look at.
func (s *Server) attention(st *Status, letters deadletter.Tally) []Attention {
	var all []Attention
	add := func(kind, name, try, what string, args ...any) {
		all = append(all, Attention{Kind: kind, Name: name, Try: try, What: fmt.Sprintf(what, args...)})
	}
	now, unknown := time.Now(), 0
	for cause, n := range letters.By {
		if cause.Reason == schemas.ReasonUnknownOutcome {
			unknown += n
		}
	}
	if unknown > 0 {
		add(UnknownOutcomes, "", "tollgate dlq ls --reason "+schemas.ReasonUnknownOutcome,
			"%s: the tool may have acted, repeating is not safe, and only a person can find out.", plural(unknown, "call has an unknown outcome", "calls have unknown outcomes"))
	}
	for _, why := range st.Missing {
		add(NotReady, "", "tollgate status", "The dispatcher is not ready: %s.", strings.TrimSuffix(why, "."))
	}
	for _, b := range st.Breakers {
		add(BreakerOpen, b.Dependency, "tollgate tools ls", "The breaker of %s is %s: its tools (%s) are held back until it answers again.", b.Dependency, b.State, strings.Join(b.Tools, ", "))
	}
	for _, x := range st.Streams {
		if full := float64(x.Bytes) / float64(x.MaxBytes); x.MaxBytes > 0 && full > fullFrom {
			add(StreamFull, x.Name, "tollgate dlq stats", "The stream %s is %.0f %% full. A full lane refuses calls; full dead letters hold up the calls that would leave one.", x.Name, 100*full)
		}
	}
	if age := now.Sub(st.OldestLetter); !st.OldestLetter.IsZero() && age > oldFrom {
		add(OldLetter, "", "tollgate dlq groups", "A dead letter has waited for %s. Nothing removes it until somebody replays, resolves or discards it.", days(age))
	}
	if since := s.cfg.History(now, time.Minute, time.Minute).OwedSince; !since.IsZero() && now.Sub(since) > stuckFrom {
		add(NotStored, "", "tollgate status", "Letters, retries or audit entries have not been stored by the server for %s. Nothing is lost, and their calls go no further meanwhile.", now.Sub(since).Truncate(time.Second))
	}
	for _, tool := range st.Paused {
		add(ToolPaused, tool, "tollgate tools resume "+tool, "The tool %s is paused: its calls wait.", tool)
	}
	if off := time.Duration(st.ClockOffsetMS) * time.Millisecond; off.Abs() > offFrom {
		add(ClockOff, "", "tollgate status", "The clocks of this machine and of the NATS server differ by %s: deadlines are judged that much too early or too late.", off.Abs())
	}
	return all
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func days(d time.Duration) string {
	if d < 48*time.Hour {
		return fmt.Sprintf("%.0f hours", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}
