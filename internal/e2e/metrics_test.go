package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// ask gets a page of the operators' listener.
func ask(w *worldtest.World, path string) (int, string) {
	rec := httptest.NewRecorder()
	w.App.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec.Code, rec.Body.String()
}

// scrape reads every series of Tollgate's own.
func scrape(w *worldtest.World) map[string]float64 {
	w.T.Helper()
	code, body := ask(w, "/metrics")
	if code != http.StatusOK {
		w.T.Fatalf("/metrics: %d %s", code, body)
	}
	all := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		name, text, ok := cutLast(lines.Text())
		if !ok || !strings.HasPrefix(name, "tollgate_") {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			w.T.Fatalf("%q: %v", lines.Text(), err)
		}
		all[name] = v
	}
	return all
}

func cutLast(line string) (before, after string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// moody succeeds, or fails as its argument says, once or for good.
func moody(s *worldtest.Seen) function.Func {
	return func(_ context.Context, in dispatcher.Invocation) (any, error) {
		s.Add(in)
		switch mode := string(in.Arguments); {
		case strings.Contains(mode, "once") && in.Attempt == 1, strings.Contains(mode, "down"):
			return nil, function.Transient("BUSY", "busy", 0)
		case strings.Contains(mode, "auth"):
			return nil, function.Stop(schemas.AuthExpired, "AUTH", "renew")
		}
		return "ok", nil
	}
}

// Every promise of the metrics is held by calls that end in every way.
func TestMetricsTellWhatHappened(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := worldtest.New(t, "  pay.it: { function: moody, effect: write, retry_safety: idempotency_key, key_retention: 1h, dependency: free, policies: [quick] }\n"+free,
			map[string]function.Func{"moody": moody(&worldtest.Seen{})})
		call := func(run, key, mode string) *schemas.Outcome {
			m := worldtest.Msg{Tool: "pay.it", Run: run, Key: key, Body: `{"mode":"` + mode + `"}`}
			w.Publish(m)
			return w.Outcome(m, time.Minute)
		}
		call("r", "1", "ok")
		call("r", "2", "once")
		call("r", "3", "down")
		call("r", "4", "auth")
		call("r", "1", "ok") // again: the stored outcome
		w.Publish(worldtest.Msg{Tool: "pay.it", Run: "r", Key: "1", Body: `{"mode":"other"}`})
		w.Publish(worldtest.Msg{Tool: "pay.it", Run: "not a run", Key: "5"})
		w.Drained(time.Minute)
		w.Until(10*time.Second, "two letters and a malformed one", func() bool { return len(w.LettersOf("")) == 3 })
		time.Sleep(3 * time.Second) // the ledger has noted by now that they are stored
		got := scrape(w)
		for name, want := range map[string]float64{
			`tollgate_outcomes_total{lane="calls",status="succeeded",tool="pay.it"}`: 2,
			`tollgate_outcomes_total{lane="calls",status="exhausted",tool="pay.it"}`: 1,
			`tollgate_outcomes_total{lane="calls",status="failed",tool="pay.it"}`:    1,
			`tollgate_outcomes_total{lane="calls",status="rejected",tool="pay.it"}`:  2,
			`tollgate_attempts_total{class="ok",tool="pay.it"}`:                      2,
			`tollgate_attempts_total{class="transient",tool="pay.it"}`:               5,
			`tollgate_retries_total{code="BUSY",result="succeeded",tool="pay.it"}`:   1,
			`tollgate_retries_total{code="BUSY",result="failed",tool="pay.it"}`:      3,
			`tollgate_call_attempts_sum{tool="pay.it"}`:                              1 + 2 + 4 + 1,
			`tollgate_call_attempts_count{tool="pay.it"}`:                            4,
			`tollgate_schedule_lateness_seconds_count`:                               4,
			`tollgate_queue_wait_seconds_count{lane="calls"}`:                        4,
			`tollgate_budget_exhausted_total{reason="call_attempts",tool="pay.it"}`:  1,
			`tollgate_stop_reasons_total{stop_reason="AUTH_EXPIRED",tool="pay.it"}`:  1,
			`tollgate_dedupe_total{result="new"}`:                                    4,
			`tollgate_dedupe_total{result="repeated"}`:                               1,
			`tollgate_dedupe_total{result="conflict"}`:                               1,
			`tollgate_dead_letters{reason="exhausted_attempts",tool="pay.it"}`:       1,
			`tollgate_dead_letters{reason="failed",tool="pay.it"}`:                   1,
			`tollgate_dead_letters{reason="malformed",tool="pay.it"}`:                1,
			`tollgate_dead_letters_total{reason="exhausted_attempts",tool="pay.it"}`: 1,
			`tollgate_dead_letters_total{reason="malformed",tool="pay.it"}`:          1,
			`tollgate_backlog_messages{kind="new",lane="calls",tool="pay.it"}`:       0,
			`tollgate_backlog_messages{kind="retry",lane="jobs",tool="pay.it"}`:      0,
			`tollgate_running_attempts`:                                              0,
			`tollgate_waiting_calls`:                                                 0,
			`tollgate_ledger_records{state="ended"}`:                                 4,
			`tollgate_ready`:                                                         1,
			`tollgate_ledger_owner`:                                                  1,
			`tollgate_unread{part="letters"}`:                                        0,
			`tollgate_unread{part="backlog"}`:                                        0,
			`tollgate_unread{part="streams"}`:                                        0,
			`tollgate_spent_falls_total`:                                             0,
			`tollgate_clock_offset_seconds`:                                          0,
			`tollgate_breaker_state{dependency="free",state="open"}`:                 -1, // it is off
			`tollgate_stream_messages{stream="TOLLGATE_DLQ"}`:                        3,
			`tollgate_tool_concurrency{tool="pay.it"}`:                               4,
			`tollgate_retry_quota_burst{dependency="free"}`:                          10000,
			`tollgate_retry_quota_exhausted_total{dependency="free"}`:                0,
			`tollgate_ledger_commit_duration_seconds_count`:                          got["tollgate_ledger_commit_duration_seconds_count"],
			`tollgate_dead_letter_oldest_timestamp_seconds`:                          float64(oldest(w).UnixMilli()) / 1000,
		} {
			v, ok := got[name]
			if !ok {
				v = -1
			}
			if v != want {
				t.Errorf("%s is %v, want %v", name, v, want)
			}
		}
		if got["tollgate_ledger_commit_duration_seconds_count"] < 8 {
			t.Errorf("%v commits were timed", got["tollgate_ledger_commit_duration_seconds_count"])
		}
	})
}

func oldest(w *worldtest.World) time.Time {
	return worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}).OldestLetter
}

// B95: hundreds of runs, tools that do not exist and tenants make no series. What thousands
// make is in the tests of internal/metrics.
func TestB95NoIdentityGetsIntoALabel(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var tenants strings.Builder
		for i := range 50 {
			fmt.Fprintf(&tenants, "  tenant-%d: { tools: [\"*\"] }\n", i)
		}
		w := worldtest.Prepare(t, "  t.one: { function: moody, effect: read, dependency: free, policies: [quick] }\n"+
			"  t.two: { function: moody, effect: write, dependency: free, policies: [quick] }\n  t.three: { function: text, effect: read, dependency: free, policies: [quick] }\n"+free,
			map[string]function.Func{"moody": moody(&worldtest.Seen{}), "text": func(_ context.Context, in dispatcher.Invocation) (any, error) {
				return nil, function.Transient("no row for "+in.Run, "", 0) // a code as no tool should have
			}}, false)
		w.Config += "tenants:\n" + tenants.String()
		w.Start()
		t.Cleanup(w.Stop)
		publish := func(from, to int) {
			modes := []string{"ok", "once", "auth"}
			for i := from; i < to; i++ {
				tool := []string{"t.one", "t.two", "t.three"}[i/3%3]
				if i%3 == 1 {
					tool = "bogus." + strconv.Itoa(i)
				}
				m := worldtest.Msg{Tool: tool, Tenant: "tenant-" + strconv.Itoa(i%50), Run: "run-" + strconv.Itoa(i), Key: "key-" + strconv.Itoa(i), Body: `{"mode":"` + modes[i/9%3] + `"}`}
				if _, err := w.JS.PublishMsgAsync(m.Build()); err != nil {
					t.Fatal(err)
				}
				if i%100 == 99 {
					<-w.JS.PublishAsyncComplete()
				}
			}
			<-w.JS.PublishAsyncComplete()
			w.Drained(10 * time.Minute)
			time.Sleep(time.Minute)
		}
		publish(0, 100) // every way a call ends here has been met
		before := scrape(w)
		publish(100, 600)
		after := scrape(w)
		if more := len(after) - len(before); more > 5 || more < -5 {
			for name := range after {
				if _, ok := before[name]; !ok {
					t.Log(name)
				}
			}
			t.Errorf("%d series after 100 runs, %d after 600", len(before), len(after))
		}
		for name := range after {
			for _, id := range []string{"run-", "key-", "tenant-", "bogus", "no row"} {
				if strings.Contains(name, id) {
					t.Errorf("a label names who or what it is: %s", name)
				}
			}
		}
		if got := after[`tollgate_outcomes_total{lane="calls",status="rejected",tool="_other"}`]; got != 200 {
			t.Errorf("%v refusals of tools that do not exist, want 200 in one series", got)
		}
		if n := after[`tollgate_dedupe_total{result="new"}`]; n != 400 {
			t.Errorf("%v calls were new, want 400", n)
		}
	})
}

// Ready is what the process can do now, and the answer names what it cannot.
func TestReadySaysWhatIsMissing(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var full atomic.Bool
		w := worldtest.Prepare(t, "  t.one: { function: moody, effect: read, policies: [quick] }\n", map[string]function.Func{"moody": moody(&worldtest.Seen{})}, false)
		w.Commit = func(commit func() error) error {
			if full.Load() {
				return errors.New("no space left on device")
			}
			return commit()
		}
		w.Start()
		t.Cleanup(w.Stop)
		expect := func(within time.Duration, code int, parts ...string) {
			t.Helper()
			var got int
			var body string
			defer func() {
				if t.Failed() {
					t.Logf("/readyz: %d %s", got, body)
				}
			}()
			w.Until(within, fmt.Sprint("/readyz answers ", code, parts), func() bool {
				got, body = ask(w, "/readyz")
				for _, part := range parts {
					if !strings.Contains(body, part) {
						return false
					}
				}
				return got == code
			})
			if live, _ := ask(w, "/livez"); live != http.StatusOK {
				t.Errorf("/livez: %d while it serves", live)
			}
		}
		expect(time.Second, http.StatusOK, "ready")

		full.Store(true)
		w.Publish(worldtest.Msg{Tool: "t.one", Run: "r", Key: "1"})
		expect(5*time.Second, http.StatusServiceUnavailable, "ledger: ", "no space left on device")
		if st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{}); st.Ready || len(st.Missing) != 1 {
			t.Errorf("status tells something else: %v %q", st.Ready, st.Missing)
		}
		if scrape(w)["tollgate_ready"] != 0 {
			t.Error("the metric says that it is ready")
		}
		full.Store(false)
		expect(10*time.Second, http.StatusOK)

		w.Node.Stop()
		expect(time.Second, http.StatusServiceUnavailable, "nats: the connection is reconnecting")
		expect(20*time.Second, http.StatusServiceUnavailable, "ownership: ", "nats: ")
		code, body := ask(w, "/metrics")
		if code != http.StatusOK || !strings.Contains(body, `tollgate_unread{part="streams"} 1`) || !strings.Contains(body, "tollgate_ready 0") {
			t.Errorf("a scrape while the server is away: %d, %d bytes", code, len(body))
		}
		w.Node.Start(t)
		expect(time.Minute, http.StatusOK)

		if err := w.JS.DeleteStream(context.Background(), "TOLLGATE_JOBS"); err != nil {
			t.Fatal(err)
		}
		expect(20*time.Second, http.StatusServiceUnavailable, "consumers: nothing is pulled for t.one")
		expect(time.Minute, http.StatusOK) // the sweep makes the lane again
	})
}

// A retry that tells of more spending than the ledger knows means that the ledger is
// an older copy.
func TestAFallOfWhatWasSpentIsSeen(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		w := worldtest.New(t, "  t.one: { function: down, effect: read, dependency: free, policies: [slow] }\n"+free, map[string]function.Func{
			"down": func(context.Context, dispatcher.Invocation) (any, error) {
				return nil, function.Transient("BUSY", "", time.Minute)
			}})
		m := worldtest.Msg{Tool: "t.one", Run: "r", Key: "1", Deadline: time.Hour}
		w.Publish(m)
		waiting := func() bool {
			st := worldtest.Ask[control.Status](w, control.VerbStatus, control.Empty{})
			return st.Waiting == 1 && st.Owed == 0
		}
		w.Until(10*time.Second, "the first retry is armed", waiting)
		w.Until(2*time.Minute, "a second attempt", func() bool { a, _ := w.Account("r"); return a == 2 })
		if n := scrape(w)["tollgate_spent_falls_total"]; n != 0 {
			t.Fatalf("%v falls of a run that only rose", n)
		}
		retry := nats.NewMsg("tollgate.retry.calls.default." + worldtest.CallID(m) + ".t.one")
		retry.Header, retry.Data = m.Build().Header, m.Build().Data
		retry.Header.Set(schemas.HeaderToken, "1")
		retry.Header.Set(schemas.HeaderSpentAttempts, "7")
		if _, err := w.JS.PublishMsg(context.Background(), retry); err != nil {
			t.Fatal(err)
		}
		w.Until(10*time.Second, "the fall is counted", func() bool { return scrape(w)["tollgate_spent_falls_total"] > 0 })
	})
}
