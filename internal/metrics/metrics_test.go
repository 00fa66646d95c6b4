package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"tollgate/budget"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/dispatcher/gate"
	"tollgate/internal/metrics"
	"tollgate/schemas"
)

func state(context.Context) metrics.State {
	offset := 20 * time.Millisecond
	return metrics.State{Owner: true, Owed: map[string]int{"result": 2}, Failed: map[string]bool{"letters": false},
		Tools:        []metrics.ToolState{{Name: "pay", Running: 1, AtMost: 4}},
		Dependencies: []metrics.DependencyState{{Name: "bank", Breaker: "open", Tokens: 3, Burst: 20}, {Name: "free", Breaker: "off"}},
		Streams:      []metrics.StreamState{{Name: "TOLLGATE_DLQ", Messages: 1, Bytes: 2, MaxBytes: 3}}, ClockOffset: &offset,
		Letters: deadletter.Tally{Oldest: time.Unix(5, 0), By: map[deadletter.Cause]int{{Tool: "pay", Reason: schemas.ReasonFailed}: 1, {Tool: "gone", Reason: schemas.ReasonFailed}: 2, {Tool: "x", Reason: "forged"}: 4}}}
}

func newMetrics() *metrics.Metrics {
	return metrics.New(metrics.Config{Tools: []string{"pay"}, Dependencies: []string{"bank"}, Version: "1", Read: state})
}

// value is the one series with these labels: name=value pairs.
func value(t *testing.T, m *metrics.Metrics, name string, labels ...string) float64 {
	t.Helper()
	fs, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if f.GetName() != "tollgate_"+name {
			continue
		}
		for _, s := range f.GetMetric() {
			if has(s, labels) {
				switch {
				case s.Counter != nil:
					return s.Counter.GetValue()
				case s.Gauge != nil:
					return s.Gauge.GetValue()
				default:
					return float64(s.Histogram.GetSampleCount())
				}
			}
		}
	}
	return -1
}

func has(s *dto.Metric, labels []string) bool {
	if len(s.GetLabel()) != len(labels) {
		return false
	}
	for _, l := range s.GetLabel() {
		found := false
		for _, want := range labels {
			found = found || want == l.GetName()+"="+l.GetValue()
		}
		if !found {
			return false
		}
	}
	return true
}

// record is a call after its n-th attempt, each but the last failed with HTTP_503.
func record(n int) *dedupe.Record {
	now := time.Now()
	r := &dedupe.Record{Lane: schemas.Calls, Tool: "pay", Tries: n, Published: now.Add(-time.Second), Settled: now, Terms: dedupe.Terms{Dependency: "bank"}}
	for i := 1; i <= n; i++ {
		r.Attempts = append(r.Attempts, schemas.Attempt{N: i, Started: now.Add(-time.Second), Ended: now, Code: "HTTP_503"})
	}
	return r
}

func after(r *dedupe.Record, v classify.Verdict, d gate.Decision) dispatcher.Sighting {
	return dispatcher.Sighting{Lane: r.Lane, Tool: r.Tool, Record: r, Verdict: &v, Decision: d}
}

func TestEveryDecisionIsCounted(t *testing.T) {
	m := newMetrics()
	busy := classify.Unsent("HTTP_503", "")
	m.Decided(after(record(1), busy, gate.Decision{Action: gate.Retry}))
	m.Decided(after(record(2), busy, gate.Decision{Action: gate.Retry, Owes: true}))
	m.Decided(after(record(3), classify.Success(nil, nil), gate.Decision{Action: gate.Settle, Status: schemas.Succeeded}))
	stop := classify.Refused(classify.Answered, "E", "")
	stop.StopReason = schemas.AuthExpired
	s := after(record(1), stop, gate.Decision{Action: gate.Settle, Status: schemas.Failed})
	s.Letter = schemas.ReasonFailed
	m.Decided(s)
	m.Decided(after(record(4), busy, gate.Decision{Action: gate.Settle, Status: schemas.Exhausted, Why: "run_attempts", Budget: budget.Refusal{Dimension: budget.Attempts}}))

	before := func(submitted bool, r *dedupe.Record, d gate.Decision) {
		m.Decided(dispatcher.Sighting{Lane: schemas.Calls, Tool: "pay", Submitted: submitted, Record: r, Decision: d, Stripped: 2, Fell: !submitted})
	}
	late := record(2)
	late.Due = late.Attempts[1].Started.Add(-time.Second)
	before(true, record(1), gate.Decision{Action: gate.Run})
	before(false, late, gate.Decision{Action: gate.Run})
	before(true, record(1), gate.Decision{Action: gate.Answer, Why: "repeated"})
	before(false, record(1), gate.Decision{Action: gate.Answer, Why: "repeated"}) // a retry that comes again asks for nothing
	before(true, record(1), gate.Decision{Action: gate.Attach, Why: "waiting"})
	before(true, record(1), gate.Decision{Action: gate.Refuse, Code: schemas.CodeKeyConflict})
	before(true, nil, gate.Decision{Action: gate.Defer, Why: "breaker"})
	before(true, record(0), gate.Decision{Action: gate.Settle, Status: schemas.Repair})

	for _, tc := range []struct {
		want   float64
		name   string
		labels string
	}{
		{3, "attempts_total", "tool=pay class=transient"},
		{1, "attempts_total", "tool=pay class=ok"},
		{1, "attempts_total", "tool=pay class=permanent"},
		{2, "retries_total", "tool=pay code=HTTP_503 result=failed"},
		{1, "retries_total", "tool=pay code=HTTP_503 result=succeeded"},
		{1, "retry_quota_exhausted_total", "dependency=bank"},
		{1, "stop_reasons_total", "tool=pay stop_reason=AUTH_EXPIRED"},
		{1, "dead_letters_total", "tool=pay reason=failed"},
		{1, "outcomes_total", "lane=calls tool=pay status=succeeded"},
		{1, "outcomes_total", "lane=calls tool=pay status=rejected"},
		{1, "outcomes_total", "lane=calls tool=pay status=repair"},
		{1, "budget_exhausted_total", "tool=pay reason=run_attempts"},
		{4, "call_attempts", "tool=pay"},
		{4, "call_duration_seconds", "lane=calls tool=pay"},
		{5, "attempt_duration_seconds", "tool=pay"},
		{1, "queue_wait_seconds", "lane=calls"},
		{1, "schedule_lateness_seconds", ""},
		{2, "dedupe_total", "result=new"},
		{1, "dedupe_total", "result=repeated"},
		{1, "dedupe_total", "result=attached"},
		{1, "dedupe_total", "result=conflict"},
		{1, "handed_back_total", "reason=breaker"},
		{2, "spent_falls_total", ""},
		{16, "stripped_headers_total", ""},
		{1, "breaker_state", "dependency=bank state=open"},
		{0, "breaker_state", "dependency=bank state=closed"},
		{-1, "breaker_state", "dependency=free state=open"},
		{1, "dead_letters", "tool=pay reason=failed"},
		{2, "dead_letters", "tool=_other reason=failed"},
		{4, "dead_letters", "tool=_other reason=_other"},
		{5, "dead_letter_oldest_timestamp_seconds", ""},
		{0.02, "clock_offset_seconds", ""},
		{0, "unread", "part=letters"},
		{1, "ready", ""},
	} {
		if got := value(t, m, tc.name, strings.Fields(tc.labels)...); got != tc.want {
			t.Errorf("%s{%s} is %v, want %v", tc.name, tc.labels, got, tc.want)
		}
	}
}

// A hook that is asked after an attempt is no retry of it, and the attempt is counted
// though the hook stands behind it in the history.
func TestAReconcileHookIsNoRetry(t *testing.T) {
	m := newMetrics()
	r := record(1)
	r.Attempts = append(r.Attempts, schemas.Attempt{N: 1, Started: time.Now(), Reconcile: true})
	m.Decided(after(r, classify.Lost("TIMEOUT", ""), gate.Decision{Action: gate.Reconcile}))
	r.Attempts[1].Ended = time.Now()
	m.Decided(after(r, classify.Success(nil, nil), gate.Decision{Action: gate.Settle, Status: schemas.Succeeded}))
	if got := value(t, m, "retries_total", "tool=pay", "code=HTTP_503", "result=succeeded"); got != -1 {
		t.Errorf("%v retries", got)
	}
	if got := value(t, m, "attempt_duration_seconds", "tool=pay"); got != 2 {
		t.Errorf("%v attempts were timed, want 2", got)
	}
}

// B95: 5,000 runs, 200 tools that do not exist, 50 tenants and 3 tools that do.
func TestB95ThousandsOfRunsMakeNoSeries(t *testing.T) {
	m := metrics.New(metrics.Config{Tools: []string{"a", "b", "c"}, Dependencies: []string{"bank"}, Read: state})
	series := func(from, to int) int {
		for i := from; i < to; i++ {
			r := record(1 + i%3)
			r.Tool, r.Tenant, r.Run, r.Key, r.Call = []string{"a", "b", "c"}[i%3], fmt.Sprint("tenant", i%50), fmt.Sprint("run", i), fmt.Sprint("key", i), fmt.Sprint("call", i)
			m.Decided(dispatcher.Sighting{Lane: r.Lane, Tool: r.Tool, Submitted: true, Record: r, Decision: gate.Decision{Action: gate.Run}})
			m.Decided(after(r, classify.Success(nil, nil), gate.Decision{Action: gate.Settle, Status: schemas.Succeeded}))
			m.Decided(dispatcher.Sighting{Lane: r.Lane, Tool: fmt.Sprint("bogus", i%200), Submitted: true, Decision: gate.Decision{Action: gate.Refuse, Status: schemas.Rejected, Code: schemas.CodeUnknownTool}})
		}
		fs, err := m.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range fs {
			n += len(f.GetMetric())
		}
		return n
	}
	if few, many := series(0, 50), series(50, 5000); many > few+5 {
		t.Errorf("%d series after 50 runs, %d after 5,000", few, many)
	}
}

// What a tool sends may have any number of codes; a label may not.
func TestCodesAreBounded(t *testing.T) {
	m := newMetrics()
	for i := range 5000 {
		r := record(2)
		r.Attempts[0].Code = "NATS_" + strings.Repeat("1", 1+i%90) + string(rune('A'+i%26))
		m.Decided(after(r, classify.Success(nil, nil), gate.Decision{Action: gate.Retry}))
	}
	fs, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if n := len(f.GetMetric()); f.GetName() == "tollgate_retries_total" && n != 41 {
			t.Errorf("%d series of retries, want 40 codes and one for all others", n)
		}
	}
}

func TestNamesAndHelpAreAsPrometheusWantsThem(t *testing.T) {
	m := newMetrics()
	m.Decided(after(record(2), classify.Success(nil, nil), gate.Decision{Action: gate.Settle, Status: schemas.Succeeded}))
	fs, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(fs).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "tollgate_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if len(fs) < 50 {
		t.Errorf("%d metrics: the registry is not what it was", len(fs))
	}
}

// What counting adds to a call that needs two attempts: three decisions.
func BenchmarkDecided(b *testing.B) {
	m := newMetrics()
	claim := dispatcher.Sighting{Lane: schemas.Calls, Tool: "pay", Submitted: true, Record: record(1), Decision: gate.Decision{Action: gate.Run}}
	retry := after(record(1), classify.Unsent("HTTP_503", ""), gate.Decision{Action: gate.Retry})
	done := after(record(2), classify.Success(nil, nil), gate.Decision{Action: gate.Settle, Status: schemas.Succeeded})
	b.ReportAllocs()
	for b.Loop() {
		m.Decided(claim)
		m.Decided(retry)
		m.Decided(done)
	}
}
