package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
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

// B38: what a real server writes into Retry-After. A usable wait is a floor with
// jitter upward; whatever is not one leaves our own backoff; none waits a negative
// time or for years.
func TestB38RetryAfterIsAFloorOrIgnored(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		v := r.URL.Query().Get("v")
		switch v {
		case "date":
			v = time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat)
		case "past":
			v = time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
		case "epoch":
			v = strconv.FormatInt(time.Now().Unix()+7, 10)
		}
		rw.Header().Set("Retry-After", v)
		rw.WriteHeader(http.StatusTooManyRequests)
	}))
	defer srv.Close()
	usable := []string{"7", "date"}
	absent := []string{"past", "-5", "%2B3", "1.5", "0", "", "soon", "epoch", "99999999999999999999"}
	var tools strings.Builder
	for i, v := range append(slices.Clone(usable), absent...) {
		fmt.Fprintf(&tools, "  t%d: { http: { url: \"%s/?v=%s\" }, effect: read, dependency: free, policies: [slow] }\n", i, srv.URL, v)
	}
	w := worldtest.New(t, tools.String()+free, nil)
	for i := range len(usable) + len(absent) {
		m := worldtest.Msg{Tool: "t" + strconv.Itoa(i), Run: "r", Key: "k", Deadline: time.Hour}
		w.Publish(m)
		var first schemas.Attempt
		for end := time.Now().Add(5 * time.Second); first.Decision == ""; time.Sleep(5 * time.Millisecond) {
			var d control.CallDetail
			if w.Ctl.Ask(t.Context(), control.VerbCallShow, control.IDQuery{ID: worldtest.CallID(m)}, &d) == nil && len(d.Timeline) > 0 {
				first = d.Timeline[0]
			}
			if time.Now().After(end) {
				t.Fatal("no attempt within 5 s")
			}
		}
		stated, delay := time.Duration(first.RetryAfterMS)*time.Millisecond, time.Duration(first.DelayMS)*time.Millisecond
		switch {
		case i < len(usable) && (stated < 5900*time.Millisecond || stated > 7*time.Second || delay < stated || delay > stated+stated/5):
			t.Errorf("%q: stated %s, waits %s", usable[i], stated, delay)
		case i >= len(usable) && (stated != 0 || delay < 0 || delay > time.Second):
			t.Errorf("%q: stated %s, waits %s; want our own backoff", absent[i-len(usable)], stated, delay)
		}
	}
}

// B40, I5, I6: a wait that does not fit the deadline ends the call at once and says
// so; one that fits but is too long is no reason to hold a call, and a job waits it
// in full, without a slot.
func TestB40AStatedWaitIsNeitherShortenedNorSleptThrough(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, "  look: { function: look, effect: read, concurrency: 1, dependency: free, policies: [quick, many] }\n"+free,
			map[string]function.Func{"look": func(_ context.Context, in dispatcher.Invocation) (any, error) {
				if s.Add(in); strings.HasPrefix(in.Run, "fine") || in.Attempt > 1 {
					return "ok", nil
				}
				return nil, function.Transient("RATE_LIMITED", "too many requests", time.Hour)
			}})
		start := time.Now()
		o := w.Do(worldtest.Msg{Tool: "look", Run: "short", Key: "k"})
		if o.Status != schemas.Exhausted || o.Code() != schemas.CodeDoesNotFit || time.Since(start) > time.Second ||
			o.Error.LastFailure == nil || o.Error.LastFailure.Code != "RATE_LIMITED" || *o.Error.LastFailure.RetryAfterMS != 3600_000 {
			t.Errorf("short: %s %+v after %s", o.Status, o.Error, time.Since(start))
		}
		if l := w.LettersOf("short"); len(l) != 1 || l[0].Reason != schemas.ReasonExhaustedElapsedTime {
			t.Errorf("letters %+v", l)
		}
		long := map[string]string{schemas.HeaderPolicy: "many"}
		if o := w.Do(worldtest.Msg{Tool: "look", Run: "long", Key: "k", Deadline: 2 * time.Hour, Header: long}); o.Status != schemas.Unavailable || o.Code() != schemas.CodeWaitTooLong {
			t.Errorf("long: %s %s", o.Status, o.Code())
		}
		job := worldtest.Msg{Lane: schemas.Jobs, Tool: "look", Run: "job", Key: "k", Deadline: 2 * time.Hour, Header: long}
		w.Publish(job)
		time.Sleep(10 * time.Second)
		start = time.Now()
		if o := w.Do(worldtest.Msg{Tool: "look", Run: "fine", Key: "k"}); o.Status != schemas.Succeeded || time.Since(start) > time.Second {
			t.Errorf("the only slot is held by a wait: %s after %s", o.Status, time.Since(start))
		}
		at := len(s.At)
		time.Sleep(59 * time.Minute)
		if s.N() != at {
			t.Error("the stated wait was shortened")
		}
		time.Sleep(12*time.Minute + 30*time.Second)
		if o := w.Outcome(job, 10*time.Second); o.Status != schemas.Succeeded || o.Budget.ElapsedMS.Used < 3600_000 {
			t.Errorf("job: %s, elapsed %+v", o.Status, o.Budget.ElapsedMS)
		}
		w.Verify()
	})
}

// B41: what failed together does not come back together.
func TestB41DelaysAreSpreadOverTheirRange(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, "  look: { function: look, effect: read, concurrency: 200, dependency: free, policies: [slow] }\n"+free,
			map[string]function.Func{"look": failsFirst(&s, 200, 0)})
		for i := range 200 {
			w.Publish(worldtest.Msg{Tool: "look", Run: "r" + strconv.Itoa(i), Key: "k", Deadline: time.Hour})
		}
		slots, total := map[int64]int{}, time.Duration(0)
		for i := range 200 {
			o := w.Outcome(worldtest.Msg{Tool: "look", Run: "r" + strconv.Itoa(i), Key: "k"}, time.Minute)
			if o.Status != schemas.Succeeded || len(o.Attempts) != 2 {
				t.Fatalf("%s after %d attempts", o.Status, len(o.Attempts))
			}
			d := o.Attempts[0].DelayMS
			if d < 0 || d > 1000 {
				t.Errorf("a delay of %d ms, the ceiling is 1 s", d)
			}
			if gap := o.Attempts[1].Started.Sub(o.Attempts[0].Ended).Milliseconds(); gap < d {
				t.Errorf("came back after %d ms, drawn were %d", gap, d)
			}
			slots[d/50]++
			total += time.Duration(d) * time.Millisecond
		}
		for slot, n := range slots {
			if n > 30 {
				t.Errorf("%d of 200 share the 50 ms from %d", n, slot*50)
			}
		}
		if mean := total / 200; mean < 400*time.Millisecond || mean > 600*time.Millisecond {
			t.Errorf("the mean of the delays is %s", mean)
		}
	})
}

// B42, I6: an outage of 400 ms costs at most two repeats, none sooner than stated.
func TestB42AShortOutageDoesNotBurnTheAttempts(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		up := time.Now().Add(time.Hour)
		w := worldtest.New(t, "  look: { function: look, effect: read, policies: [quick] }\n", map[string]function.Func{"look": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in); time.Now().Before(up) {
				return nil, function.Transient("DOWN", "down", 300*time.Millisecond)
			}
			return "ok", nil
		}})
		up = time.Now().Add(400 * time.Millisecond)
		m := worldtest.Msg{Tool: "look", Run: "r", Key: "k"}
		w.Publish(m)
		o := w.Outcome(m, 10*time.Second)
		if o.Status != schemas.Succeeded || s.N() > 3 {
			t.Errorf("%s after %d executions", o.Status, s.N())
		}
		for i := 1; i < s.N(); i++ {
			if gap := s.At[i].Sub(s.At[i-1]); gap < 300*time.Millisecond {
				t.Errorf("%s between executions %d and %d", gap, i, i+1)
			}
		}
		if l := w.LettersOf(""); len(l) != 0 {
			t.Errorf("letters %+v", l)
		}
		w.Verify()
	})
}

// B43: through every executor the tool sees exactly as many requests as attempts
// are charged: nothing below the dispatcher repeats.
func TestB43NoLayerRetriesByItself(t *testing.T) {
	var requests, asked, called atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		rw.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	count := t.TempDir() + "/count"
	w := worldtest.New(t, fmt.Sprintf(`  over.http: { http: { url: %q }, effect: read, dependency: free, policies: [quick] }
  over.nats: { nats: { subject: svc.busy }, effect: read, dependency: free, policies: [quick] }
  over.exec: { exec: { command: [/bin/sh, -c, 'echo x >> "$0"; exit 75', %q] }, effect: read, dependency: free, policies: [quick] }
  over.go: { function: busy, effect: read, dependency: free, policies: [quick] }
`, srv.URL, count)+free, map[string]function.Func{"busy": func(context.Context, dispatcher.Invocation) (any, error) {
		called.Add(1)
		return nil, function.Transient("BUSY", "busy", 0)
	}})
	if _, err := w.NC.Subscribe("svc.busy", func(m *nats.Msg) {
		asked.Add(1)
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{schemas.HeaderServiceError: {"busy"}, schemas.HeaderServiceErrorCode: {"503"}}})
	}); err != nil {
		t.Fatal(err)
	}
	var calls []worldtest.Msg
	for _, kind := range []string{"http", "nats", "exec", "go"} {
		m := worldtest.Msg{Tool: "over." + kind, Run: kind, Key: "k"}
		w.Publish(m)
		calls = append(calls, m)
	}
	seen := map[string]func() int64{"http": requests.Load, "nats": asked.Load, "go": called.Load, "exec": func() int64 { return lines(t, count) }}
	for _, m := range calls {
		o := w.Outcome(m, 20*time.Second)
		n, _ := w.Account(m.Run)
		if got := seen[m.Run](); o.Status != schemas.Exhausted || o.Code() != schemas.CodeCallAttempts || got != 4 || n != 4 || len(o.Attempts) != 4 {
			t.Errorf("%s: %s %s, %d requests, %d charged, attempts %+v", m.Run, o.Status, o.Code(), got, n, o.Attempts)
		}
	}
	w.Verify()
}

func lines(t *testing.T, file string) int64 {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return int64(strings.Count(string(b), "\n"))
}
