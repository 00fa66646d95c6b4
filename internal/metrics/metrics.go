// Package metrics counts what the dispatcher decides, reads the state of its parts
// when somebody asks, and answers in Prometheus's format. Every metric there is stands
// in this package: what is counted in this file, what is read in read.go.
//
// Nothing here decides, and nothing here waits on the path of a call. No label holds a
// run, a call, a key, a tenant, or a text that an agent or a tool chose: a label's value
// is the name of something configured, or one of a closed set.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const namespace = "tollgate"

// Other stands in a label for every value that is not on its list.
const Other = "_other"

// Config is what is measured.
type Config struct {
	Tools        []string // the names that may stand in a label
	Dependencies []string
	Version      string
	Read         Reader
}

// Metrics are the metrics of one dispatcher, in a registry of their own.
type Metrics struct {
	registry     *prometheus.Registry
	tools        map[string]bool
	dependencies map[string]bool

	mu    sync.Mutex // guards codes
	codes map[string]map[string]bool

	outcomes, attempts, retries, exhausted, quota, stops, dedupe, letters, returned *prometheus.CounterVec
	fallen, stripped                                                                prometheus.Counter
	attemptTime, callTime, callAttempts, queueWait                                  *prometheus.HistogramVec
	lateness                                                                        prometheus.Histogram
}

// New returns metrics that count from zero.
func New(c Config) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), tools: set(c.Tools), dependencies: set(c.Dependencies), codes: map[string]map[string]bool{}}
	m.outcomes = m.counters("outcomes_total", "Terminal outcomes and refusals.", "lane", "tool", "status")
	m.attempts = m.counters("attempts_total", "Attempts that have ended; class is ok for a success.", "tool", "class")
	m.retries = m.counters("retries_total", "Attempts after the first of their generation, by the code of the failure before them and how they ended.", "tool", "code", "result")
	m.exhausted = m.counters("budget_exhausted_total", "Calls that ended because attempts, time or side effects were used up.", "tool", "reason")
	m.quota = m.counters("retry_quota_exhausted_total", "Transient failures that found no token for a retry.", "dependency")
	m.stops = m.counters("stop_reasons_total", "Attempts that the tool said must not be repeated.", "tool", "stop_reason")
	m.dedupe = m.counters("dedupe_total", "Submissions by what the ledger knew of them.", "result")
	m.letters = m.counters("dead_letters_total", "Dead letters that were left.", "tool", "reason")
	m.returned = m.counters("handed_back_total", "Deliveries that were handed back for later, uncharged.", "reason")
	m.fallen = m.counter("spent_falls_total", "Retries that told of more spending of their run than the ledger knew: it has forgotten some.")
	m.stripped = m.counter("stripped_headers_total", "Headers of the dispatcher's own that agents had set; they were ignored.")
	m.attemptTime = m.histograms("attempt_duration_seconds", "How long attempts took.", durations, "tool")
	m.callTime = m.histograms("call_duration_seconds", "From the publish of a call to its outcome.", durations, "lane", "tool")
	m.callAttempts = m.histograms("call_attempts", "Attempts of a call, and of each of its replays, when it ended.", []float64{0, 1, 2, 3, 4, 5, 8, 13, 21}, "tool")
	m.queueWait = m.histograms("queue_wait_seconds", "From the publish of a call to its first attempt.", durations, "lane")
	m.lateness = prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "schedule_lateness_seconds",
		Help: "How long after they were due retries started.", Buckets: durations})
	m.registry.MustRegister(m.lateness, &reading{read: c.Read, version: c.Version, tools: m.tools},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.zero(c)
	return m
}

// durations are the bounds of every time that is measured in seconds.
var durations = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// zero makes the series that alerts look at exist from the start: an increase from
// nothing to one is none.
func (m *Metrics) zero(c Config) {
	for _, d := range c.Dependencies {
		m.quota.WithLabelValues(d)
	}
	for _, r := range []string{dedupeNew, dedupeRepeated, dedupeAttached, dedupeConflict} {
		m.dedupe.WithLabelValues(r)
	}
}

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 20 * time.Second, EnableOpenMetrics: true,
		ErrorHandling: promhttp.ContinueOnError})
}

// Registry is where the metrics are gathered.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histograms(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: bounds}, labels)
	m.registry.MustRegister(v)
	return v
}

func set(names []string) map[string]bool {
	s := map[string]bool{}
	for _, n := range names {
		s[n] = true
	}
	return s
}
