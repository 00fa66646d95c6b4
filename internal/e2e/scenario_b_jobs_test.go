package e2e

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/natstest"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// gauge counts attempts at once, by lane told from the run's name.
type gauge struct {
	mu        sync.Mutex
	now, most map[string]int
}

func (g *gauge) enter(run string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil {
		g.now, g.most = map[string]int{}, map[string]int{}
	}
	for _, k := range []string{run, "all"} {
		g.now[k]++
		g.most[k] = max(g.most[k], g.now[k])
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.now[run]--
		g.now["all"]--
	}
}

// peak is the most there were at once.
func (g *gauge) peak(run string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most[run]
}

// Jobs hold at most their share of a tool's slots, so a call beside a backlog of
// them starts at once; all together never exceed the cap.
func TestJobsNeverHoldMoreThanTheirShareOfTheSlots(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var g gauge
		w := worldtest.New(t, "  work: { function: work, effect: read, concurrency: 4, jobs_share: 0.5, dependency: free, policies: [quick, many] }\n"+free,
			map[string]function.Func{"work": func(_ context.Context, in dispatcher.Invocation) (any, error) {
				defer g.enter(schemas.Root(in.Run))()
				time.Sleep(2 * time.Second)
				return "ok", nil
			}})
		for i := range 30 {
			w.Publish(worldtest.Msg{Lane: schemas.Jobs, Tool: "work", Run: "jobs", Key: strconv.Itoa(i), Deadline: time.Hour, Header: map[string]string{schemas.HeaderPolicy: "many"}})
		}
		time.Sleep(5 * time.Second)
		var wg sync.WaitGroup
		for i := range 6 {
			time.Sleep(1500 * time.Millisecond)
			wg.Go(func() {
				start := time.Now()
				o := w.Do(worldtest.Msg{Tool: "work", Run: "calls", Key: strconv.Itoa(i)})
				if d := time.Since(start); o.Status != schemas.Succeeded || d > 2500*time.Millisecond {
					t.Errorf("call %d beside a backlog of jobs: %s after %s", i, o.Status, d)
				}
			})
		}
		wg.Wait()
		if g.peak("jobs") != 2 || g.peak("all") > 4 {
			t.Errorf("at once: %v", g.most)
		}
		last := worldtest.Msg{Tool: "work", Run: "jobs", Key: "29"}
		w.Outcome(last, 2*time.Minute)
		time.Sleep(2 * time.Second)
		if n := w.Messages("TOLLGATE_JOBS", ">"); n != 0 {
			t.Errorf("%d jobs left", n)
		}
		w.Verify()
	})
}

// delivered is how often the server has delivered messages of a tool's jobs.
func delivered(w *worldtest.World, tool string) uint64 {
	w.T.Helper()
	c, err := w.JS.Consumer(context.Background(), "TOLLGATE_JOBS", "jobs-"+tool)
	if err != nil {
		w.T.Fatal(err)
	}
	return c.CachedInfo().Delivered.Consumer
}

// While the breaker is open no job is pulled; when it may close one is tried, and
// only its success lets the others through. Nothing put back is charged.
func TestAnOpenBreakerStopsJobsAndLetsOneProbeThrough(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		var down atomic.Bool
		down.Store(true)
		w := worldtest.New(t, `  work: { function: work, effect: read, concurrency: 4, jobs_share: 1, dependency: api, policies: [many] }
dependencies: { api: { breaker: { consecutive: 3, ratio: 1, least: 1000, cooldown: 30s }, quota: { ratio: 1, burst: 1000 } } }
`, map[string]function.Func{"work": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			s.Add(in)
			time.Sleep(2 * time.Second)
			if down.Load() {
				return nil, function.Transient("DOWN", "down", time.Second)
			}
			return "ok", nil
		}})
		for i := range 40 {
			w.Publish(worldtest.Msg{Lane: schemas.Jobs, Tool: "work", Run: "r", Key: strconv.Itoa(i), Deadline: time.Hour})
		}
		time.Sleep(5 * time.Second) // the breaker is open
		opened, pulled := s.N(), delivered(w, "work")
		if opened > 8 {
			t.Errorf("%d attempts before it opened", opened)
		}
		time.Sleep(22 * time.Second)
		if n, p := s.N(), delivered(w, "work"); n != opened || p > pulled+4 {
			t.Errorf("while open: %d more attempts, %d more deliveries", n-opened, p-pulled)
		}
		pulled = delivered(w, "work")
		time.Sleep(8 * time.Second) // past the cooldown: the probe has failed
		if n, p := s.N(), delivered(w, "work"); n != opened+1 || p > pulled+4 {
			t.Errorf("half open: %d probes, %d deliveries", n-opened, p-pulled)
		}
		down.Store(false)
		pulled = delivered(w, "work")
		time.Sleep(26 * time.Second)
		start := s.N()
		if start > opened+2 {
			t.Errorf("%d attempts before the second probe", start-opened)
		}
		time.Sleep(90 * time.Second)
		for i := range 40 {
			if o := w.Stored(worldtest.Msg{Tool: "work", Run: "r", Key: strconv.Itoa(i)}); o == nil || o.Status != schemas.Succeeded || len(o.Attempts) > 3 {
				t.Errorf("job %d: %+v", i, o)
			}
		}
		if p := delivered(w, "work"); p > pulled+80 {
			t.Errorf("%d deliveries for 40 jobs after the outage", p-pulled)
		}
		if n, _ := w.Account("r"); n != s.N() {
			t.Errorf("I4: charged %d, executed %d", n, s.N())
		}
		w.Verify()
	})
}

// A probe that takes long keeps the backlog where it is instead of churning it.
func TestABacklogOfJobsStaysPutWhileAProbeRuns(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  work: { function: work, effect: read, concurrency: 4, jobs_share: 1, dependency: api, policies: [patient] }
dependencies: { api: { breaker: { consecutive: 1, ratio: 1, least: 1000, cooldown: 5s } } }
`, map[string]function.Func{"work": func(_ context.Context, in dispatcher.Invocation) (any, error) {
			if s.Add(in) > 4 {
				time.Sleep(30 * time.Second)
				return "ok", nil
			}
			return nil, function.Transient("DOWN", "down", time.Second)
		}})
		for i := range 50 {
			w.Publish(worldtest.Msg{Lane: schemas.Jobs, Tool: "work", Run: "r", Key: strconv.Itoa(i), Deadline: time.Hour})
		}
		for s.N() < 5 {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		pulled, n := delivered(w, "work"), s.N()
		time.Sleep(20 * time.Second)
		if p := delivered(w, "work"); p > pulled+8 || s.N() != n {
			t.Errorf("while the probe runs: %d deliveries, %d attempts", p-pulled, s.N()-n)
		}
	})
}

// A retry that found the quota empty waits as a job, owing a token, and pays it
// before it runs; it is never charged for waiting.
func TestAJobThatOwesAQuotaTokenWaitsForIt(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T) {
		var s worldtest.Seen
		w := worldtest.New(t, `  work: { function: work, effect: read, dependency: api, policies: [many] }
dependencies: { api: { breaker: off, quota: { ratio: 0, burst: 1, refill_per_s: 0.1 } } }
`, map[string]function.Func{"work": failsFirst(&s, 3, 0)})
		job := worldtest.Msg{Lane: schemas.Jobs, Tool: "work", Run: "r", Key: "job", Deadline: time.Hour}
		w.Publish(job)
		o := w.Outcome(job, 2*time.Minute)
		if o.Status != schemas.Succeeded || s.N() != 4 || o.Budget.Attempts.Used != 4 {
			t.Errorf("%s after %d executions, charged %+v", o.Status, s.N(), o.Budget.Attempts)
		}
		// One token was there; the two others came at a tenth a second.
		if d := s.At[3].Sub(s.At[0]); d < 15*time.Second || d > 40*time.Second {
			t.Errorf("three retries within %s", d)
		}
		if c := worldtest.Ask[control.CallDetail](w, control.VerbCallShow, control.IDQuery{ID: worldtest.CallID(job)}); c.Timeline[1].Decision != "retry: quota_empty" {
			t.Errorf("timeline %+v", c.Timeline)
		}
		// a call does not wait for a token
		call := worldtest.Msg{Tool: "work", Run: "r", Key: "call"}
		s.Mu.Lock()
		s.Calls = nil
		s.Mu.Unlock()
		if o := w.Do(call); o.Status != schemas.Unavailable || o.Code() != schemas.CodeQuotaEmpty {
			t.Errorf("call: %s %s", o.Status, o.Code())
		}
		w.Verify()
	})
}
