package metrics

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate/consumer"
	"tollgate/deadletter"
	"tollgate/dedupe/bolt"
	"tollgate/schemas"
)

// Reader reads the state of the parts. What cannot be read is left out, and named in
// Failed.
type Reader func(context.Context) State

// State is what is read at a scrape.
type State struct {
	Missing      []string // why the dispatcher is not ready
	Owner        bool
	Running      int
	Waiting      int
	Owed         map[string]int // by kind
	Abandoned    int64
	Ledger       bolt.Stats
	Tools        []ToolState
	Dependencies []DependencyState
	Backlogs     []consumer.Backlog
	Streams      []StreamState
	ClockOffset  *time.Duration // of the server against this process; nil: not known
	Letters      deadletter.Tally
	Failed       map[string]bool // every part that had to be asked for, and whether that failed
}

// ToolState is one tool's concurrency.
type ToolState struct {
	Name    string
	Running int
	AtMost  int
	Paused  bool
}

// DependencyState is the live state of a dependency.
type DependencyState struct {
	Name    string
	Breaker string
	Tokens  float64
	Burst   float64
}

// StreamState is how full a stream is.
type StreamState struct {
	Name     string
	Messages uint64
	Bytes    uint64
	MaxBytes int64
}

// readWithin bounds a reading.
const readWithin = 8 * time.Second

// breakerStates are gobreaker's; "off" has no series.
var breakerStates = []string{"closed", "half-open", "open"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var (
	descBuild       = desc("build_info", "The version of this program; always 1.", "version", "go")
	descReady       = desc("ready", "1 while the dispatcher owns its ledger and can commit, is connected and pulls.")
	descOwner       = desc("ledger_owner", "1 while this process owns the ledger; without it nothing is claimed.")
	descRunning     = desc("running_attempts", "Attempts under way.")
	descWaiting     = desc("waiting_calls", "Calls that wait for their next attempt.")
	descOwed        = desc("owed_publications", "What is committed and the server has not stored yet.", "kind")
	descAbandoned   = desc("abandoned_attempts_total", "Tools that had neither answered nor stopped when the grace was over.")
	descBytes       = desc("ledger_bytes", "Size of the ledger's file.")
	descRecords     = desc("ledger_records", "Calls in the ledger.", "state")
	descRuns        = desc("ledger_runs", "Runs in the ledger.")
	descFailed      = desc("ledger_failed_commits_total", "Commits that failed; nothing was claimed by them.")
	descCommits     = desc("ledger_commit_duration_seconds", "How long commits of the ledger took, the sync included.")
	descToolRunning = desc("tool_running", "Slots of a tool that are taken.", "tool")
	descToolAtMost  = desc("tool_concurrency", "Slots of a tool.", "tool")
	descPaused      = desc("tool_paused", "1 while an operator has paused the tool.", "tool")
	descBreaker     = desc("breaker_state", "1 for the state that a dependency's breaker is in.", "dependency", "state")
	descTokens      = desc("retry_quota_tokens", "Tokens for retries that a dependency has left.", "dependency")
	descBurst       = desc("retry_quota_burst", "Most tokens for retries a dependency may have.", "dependency")
	descBacklog     = desc("backlog_messages", "Messages of a tool that are not taken yet.", "lane", "tool", "kind")
	descHeld        = desc("held_messages", "Messages of a tool that are taken and not settled.", "lane", "tool", "kind")
	descMessages    = desc("stream_messages", "Messages of a stream.", "stream")
	descStreamBytes = desc("stream_bytes", "Bytes of a stream.", "stream")
	descStreamMax   = desc("stream_max_bytes", "Bytes that a stream may have; those without a limit are left out.", "stream")
	descOffset      = desc("clock_offset_seconds", "The server's clock less this machine's.")
	descLetters     = desc("dead_letters", "Active dead letters.", "tool", "reason")
	descOldest      = desc("dead_letter_oldest_timestamp_seconds", "When the oldest active dead letter died; there is none without one.")
	descUnread      = desc("unread", "1 for a part that could not be read, so that its metrics are missing.", "part")
)

// reading is the collector of what is read.
type reading struct {
	read    Reader
	version string
	tools   map[string]bool
}

// Describe implements [prometheus.Collector].
func (c *reading) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descBuild, descReady, descOwner, descRunning, descWaiting, descOwed, descAbandoned, descBytes, descRecords, descRuns,
		descFailed, descCommits, descToolRunning, descToolAtMost, descPaused, descBreaker, descTokens, descBurst, descBacklog, descHeld, descMessages,
		descStreamBytes, descStreamMax, descOffset, descLetters, descOldest, descUnread} {
		to <- d
	}
}

// sink sends values to a scrape.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// Collect implements [prometheus.Collector].
func (c *reading) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	st, s := c.read(ctx), sink(to)
	s.gauge(descBuild, 1, c.version, runtime.Version())
	s.gauge(descReady, truth(len(st.Missing) == 0))
	s.gauge(descOwner, truth(st.Owner))
	s.gauge(descRunning, float64(st.Running))
	s.gauge(descWaiting, float64(st.Waiting))
	s.counter(descAbandoned, float64(st.Abandoned))
	for kind, n := range st.Owed {
		s.gauge(descOwed, float64(n), kind)
	}
	for part, failed := range st.Failed {
		s.gauge(descUnread, truth(failed), part)
	}
	s.ledger(st.Ledger)
	s.catalogue(st)
	s.streams(st)
	c.letters(s, st)
}

func (s sink) ledger(l bolt.Stats) {
	s.gauge(descBytes, float64(l.FileBytes))
	s.gauge(descRecords, float64(l.Live), "live")
	s.gauge(descRecords, float64(l.Terminal), "ended")
	s.gauge(descRuns, float64(l.Runs))
	s.counter(descFailed, float64(l.FailedCommits))
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range bolt.CommitBounds {
		sum += l.CommitTimes[i]
		buckets[bound.Seconds()] = sum
	}
	s <- prometheus.MustNewConstHistogram(descCommits, sum+l.CommitTimes[len(bolt.CommitBounds)], l.CommitTime.Seconds(), buckets)
}

func (s sink) catalogue(st State) {
	for _, t := range st.Tools {
		s.gauge(descToolRunning, float64(t.Running), t.Name)
		s.gauge(descToolAtMost, float64(t.AtMost), t.Name)
		s.gauge(descPaused, truth(t.Paused), t.Name)
	}
	for _, d := range st.Dependencies {
		s.gauge(descTokens, d.Tokens, d.Name)
		s.gauge(descBurst, d.Burst, d.Name)
		for _, state := range breakerStates {
			if d.Breaker != "off" {
				s.gauge(descBreaker, truth(d.Breaker == state), d.Name, state)
			}
		}
	}
}

func (s sink) streams(st State) {
	for _, b := range st.Backlogs {
		kind := "new"
		if b.Retry {
			kind = "retry"
		}
		s.gauge(descBacklog, float64(b.Pending), string(b.Lane), b.Tool, kind)
		s.gauge(descHeld, float64(b.Held), string(b.Lane), b.Tool, kind)
	}
	for _, x := range st.Streams {
		s.gauge(descMessages, float64(x.Messages), x.Name)
		s.gauge(descStreamBytes, float64(x.Bytes), x.Name)
		if x.MaxBytes > 0 {
			s.gauge(descStreamMax, float64(x.MaxBytes), x.Name)
		}
	}
	if st.ClockOffset != nil {
		s.gauge(descOffset, st.ClockOffset.Seconds())
	}
}

// letters tells of the active ones. A letter may be of a tool that nobody serves, and one
// that somebody forged of anything.
func (c *reading) letters(s sink, st State) {
	by, reasons := map[deadletter.Cause]int{}, set(schemas.Reasons)
	for cause, n := range st.Letters.By {
		by[deadletter.Cause{Tool: within(c.tools, cause.Tool), Reason: within(reasons, cause.Reason)}] += n
	}
	for cause, n := range by {
		s.gauge(descLetters, float64(n), cause.Tool, cause.Reason)
	}
	if !st.Letters.Oldest.IsZero() {
		s.gauge(descOldest, float64(st.Letters.Oldest.UnixMilli())/1000)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
