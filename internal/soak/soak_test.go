package soak

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/internal/demo"
	"tollgate/schemas"
)

// The real program, killed in the middle of its work and started again: nothing is
// lost, nothing that must not is done twice, nobody pays twice or not at all.
func TestKilledFiveTimesInThreeHundredCalls(t *testing.T) { soak(t, 300, 5, 3*time.Minute) }

func soak(t *testing.T, calls, kills int, within time.Duration) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), within, context.DeadlineExceeded)
	defer cancel()
	world, err := demo.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(t, world.URL())
	if err := p.start(ctx); err != nil {
		t.Fatal(err)
	}
	a, err := newAgents(p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.nc.Close()

	done := make(chan error, 1)
	go func() { done <- a.work(ctx, calls, 24) }()
	// A kill comes when the tools have seen the n-th request: in the middle of it.
	killed := 0
	for ; killed < kills; killed++ {
		if !reached(ctx, world, (killed+1)*calls/(kills+1), done) {
			break
		}
		p.kill()
		if err := p.start(ctx); err != nil {
			t.Fatalf("start after kill %d: %v", killed+1, err)
		}
	}
	if killed < kills {
		t.Fatalf("the work ended after %d of %d kills", killed, kills)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	check(t, a, world, calls)
}

// reached waits until the tools have seen so many requests.
func reached(ctx context.Context, w *demo.World, n int, done chan error) bool {
	for ctx.Err() == nil && len(done) == 0 {
		if total(w) >= n {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

func total(w *demo.World) (n int) {
	for _, tool := range []string{"demo.flaky", "demo.pay", "demo.wire"} {
		for _, requests := range w.Requests(tool) {
			n += requests
		}
	}
	return n
}

func check(t *testing.T, a *agents, world *demo.World, calls int) {
	t.Helper()
	statuses := map[schemas.Status]int{}
	spent := map[string]int{}
	paid := map[string]int{}
	for _, p := range world.Payments() {
		paid[p.Tool+" "+p.Key]++
	}
	for i := range calls {
		p := planned(i)
		id := p.call()
		o := a.outcomes[id]
		if o == nil || len(a.seen[id]) != 1 {
			t.Fatalf("call %s (%s): %d outcomes: %v", id, p.tool, len(a.seen[id]), a.seen[id])
		}
		statuses[o.Status]++
		spent[p.run] += len(o.Attempts)
		payments, requests := paid[p.tool+" "+id], world.Requests(p.tool)[id]
		switch {
		case requests > len(o.Attempts):
			t.Errorf("%s %s: %d requests for %d attempts", p.tool, id, requests, len(o.Attempts))
		case p.tool == "demo.wire" && requests > 1:
			t.Errorf("I2: transfer %s, which must not be repeated, was sent %d times: %+v", id, requests, o)
		case payments > 1, o.Status == schemas.Succeeded && p.args.To != "" && payments != 1:
			t.Errorf("%s %s ended %s with %d payments", p.tool, id, o.Status, payments)
		case o.Status == schemas.Cancelled || o.Status == schemas.Unavailable || o.Status == schemas.Repair || o.Status == schemas.ToolError:
			t.Errorf("%s %s ended %s: %+v", p.tool, id, o.Status, o.Error)
		}
	}
	t.Logf("%d calls: %v", calls, statuses)
	if statuses[schemas.Succeeded] < calls/3 {
		t.Errorf("only %d of %d calls succeeded", statuses[schemas.Succeeded], calls)
	}
	ctl := connect(a)
	checkBudgets(t, ctl, spent, calls)
	checkVerify(t, a, ctl, calls)
}

func connect(a *agents) *control.Client {
	subjects, _ := schemas.NewSubjects("")
	return &control.Client{NATS: a.nc, Subjects: subjects, By: "soak"}
}

// checkBudgets holds every account against the outcomes that were seen outside.
func checkBudgets(t *testing.T, ctl *control.Client, spent map[string]int, calls int) {
	t.Helper()
	for i := 0; i < calls; i += callsPerRun {
		p := planned(i)
		var run control.RunDetail
		if err := ctl.Ask(t.Context(), control.VerbRunShow, control.RunQuery{Run: p.run}, &run); err != nil {
			t.Fatal(err)
		}
		own, root := run.Accounts[p.run], run.Accounts[schemas.Root(p.run)]
		if own.Attempts != spent[p.run] || root.Attempts != spent[p.run] || own.Effects != root.Effects {
			t.Errorf("I4: run %s was charged %d and %d attempts, its outcomes have %d", p.run, own.Attempts, root.Attempts, spent[p.run])
		}
		if own.Attempts > own.Limits.Attempts || p.budget != "" && own.Limits.Attempts != 8 {
			t.Errorf("I3: run %s has spent %d of %d", p.run, own.Attempts, own.Limits.Attempts)
		}
	}
}

func checkVerify(t *testing.T, a *agents, ctl *control.Client, calls int) {
	t.Helper()
	var report control.VerifyReport
	// A record that is written once more while verify walks may be passed over: what
	// was published a moment ago still is.
	for range 30 {
		report = control.VerifyReport{}
		if err := ctl.Ask(t.Context(), control.VerbVerify, control.Empty{}, &report); err != nil {
			t.Fatal(err)
		}
		if !report.OK || report.Checks[0].Checked == calls {
			break
		}
		time.Sleep(time.Second)
	}
	for _, c := range report.Checks {
		for _, fault := range c.Faults {
			t.Errorf("verify: %s: %s", c.Name, fault)
		}
	}
	if !report.OK || report.Checks[0].Checked != calls {
		t.Errorf("verify looked at %d of %d calls", report.Checks[0].Checked, calls)
	}
	for _, stream := range []string{"TOLLGATE_CALLS", "TOLLGATE_JOBS", "TOLLGATE_RETRY"} {
		empty(t, a.js, stream)
	}
}

// empty waits until a stream holds nothing: every delivery was settled.
func empty(t *testing.T, js jetstream.JetStream, stream string) {
	t.Helper()
	var left uint64
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		st, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		if left = st.CachedInfo().State.Msgs; left == 0 {
			return
		}
	}
	t.Errorf("%s still holds %d messages: %s", stream, left, contents(t.Context(), js, stream))
}

// contents says what a stream holds and what its consumers know of it.
func contents(ctx context.Context, js jetstream.JetStream, stream string) string {
	st, err := js.Stream(ctx, stream)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	state := st.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		if m, err := st.GetMsg(ctx, seq); err == nil {
			fmt.Fprintf(&b, "\n%d %s at %s %v", seq, m.Subject, m.Time.Format(time.RFC3339Nano), m.Header)
		}
	}
	consumers := st.ListConsumers(ctx)
	for c := range consumers.Info() {
		if c.NumPending+uint64(c.NumAckPending) > 0 {
			fmt.Fprintf(&b, "\n%s: %d pending, %d in hand, delivered %+v, acked %+v", c.Name, c.NumPending, c.NumAckPending, c.Delivered, c.AckFloor)
		}
	}
	return b.String()
}
