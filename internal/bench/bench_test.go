package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/consumer"
	"tollgate/internal/verify"
	"tollgate/schemas"
)

// A small run of everything reports every field, with numbers that can be true.
func TestRunReportsEveryField(t *testing.T) {
	o := Options{Calls: 100, Sync: time.Second, Retained: 2000, PendingRetries: 200, Tool: "http", Dir: t.TempDir(), Rounds: 2}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(r)
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	want := []string{"calls", "calls_per_s", "floor_calls_per_s", "ratio", "p50_ms", "p99_ms", "floor_p50_ms", "fsync_p50_ms", "cpu_us_per_call",
		"ledger_bytes_per_call", "ledger_bytes_per_call_uncompacted", "rss_mb", "sync", "retained_keys", "pending_retries", "start_s",
		"ledger_start_cold_s", "ledger_start_warm_s", "heap_bytes_per_key", "small_calls_per_s", "growth_ratio"}
	for _, name := range want {
		if n, ok := fields[name].(float64); name != "sync" && (!ok || n <= 0 && name != "ledger_bytes_per_call_uncompacted") {
			t.Errorf("%s is %v", name, fields[name])
		}
	}
	if len(fields) != len(want) || r.Sync != "1s" || r.Calls != 100 || r.RetainedKeys != 2000 || r.PendingRetries != 200 || r.P99MS < r.P50MS {
		t.Errorf("report %s", text)
	}
}

func TestRunViaDo(t *testing.T) {
	r, err := Run(t.Context(), Options{Calls: 200, Via: "do", Dir: t.TempDir(), Rounds: 1})
	if err != nil || r.CallsPerS <= 0 || r.Sync != "always" {
		t.Fatalf("%+v, %v", r, err)
	}
}

// What is measured is the real thing: every call of a round is a settled one.
func TestMeasuredCallsAreReal(t *testing.T) {
	o, err := Options{Calls: 60, PendingRetries: callsPerRun, Dir: t.TempDir()}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(t.Context(), o.Dir+"/ledger.db", o); err != nil {
		t.Fatal(err)
	}
	p, err := startProduct(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := p.settleDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.round(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if s := p.app.Ledger().Stats(); s.Terminal != 60 || s.Live != callsPerRun {
		t.Errorf("the ledger holds %d settled and %d live calls", s.Terminal, s.Live)
	}
	subjects, _ := schemas.NewSubjects("")
	report, err := verify.Run(t.Context(), verify.Sources{Ledger: p.app.Ledger(), JetStream: p.js[0], Subjects: subjects, Names: consumer.StreamNames(subjects)})
	if err != nil || !report.OK {
		t.Errorf("verify after a round: %+v, %v", report, err)
	}
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	wrong := []Options{{Tool: "exec"}, {Via: "jobs"}, {Calls: -1}, {Rounds: -1}, {Payload: -1}, {Pause: -1}, {Sync: -1}, {Sync: 1}, {Sync: time.Millisecond - 1},
		{InFlight: 100_001}, {Retained: math.MaxInt}, {PendingRetries: 100_000_001}, {Payload: math.MaxInt}}
	for _, o := range wrong {
		o.Dir = t.TempDir()
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
		if err := Prepare(t.Context(), o); err == nil {
			t.Errorf("%+v was prepared", o)
		}
		if err := o.Check(); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	most := Options{Sync: time.Millisecond, InFlight: 100_000, Retained: 100_000_000, PendingRetries: 100_000_000, Payload: 1_000_000}
	if err := most.Check(); err != nil {
		t.Error(err)
	}
}

// Who is interrupted does not have to wait for the pause to end.
func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := repeat(ctx, 200, 1000*time.Hour, func(int) error { return nil })
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func TestArgumentsAreAsLongAsAskedFor(t *testing.T) {
	for asked, want := range map[int]int{0: 80, 40: 80, 300: 300} {
		got := Options{Payload: asked}.message("tollgate.calls", "r", 1).Data
		if len(got) != want || !json.Valid(got) {
			t.Errorf("asked for %d bytes: %d bytes %s", asked, len(got), got)
		}
	}
}

// A pause is between the calls and no part of them.
func TestAPauseIsNotMeasured(t *testing.T) {
	began := time.Now()
	took, err := repeat(t.Context(), 4, 200*time.Millisecond, func(int) error { return nil })
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	if err != nil || len(took) != 4 || time.Since(began)-sum < time.Millisecond {
		t.Errorf("%v of %v were measured, %v", sum, time.Since(began), err)
	}
}

func TestMedianAndQuantile(t *testing.T) {
	if m := median([]float64{5, 1, 3}); m != 3 {
		t.Errorf("median of 1 3 5: %v", m)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median of 1 2 3 4: %v", m)
	}
	all := []time.Duration{}
	for i := range 100 {
		all = append(all, time.Duration(100-i))
	}
	before := slices.Clone(all)
	if q := quantile(all, 0.99); q != 100 {
		t.Errorf("p99 of 1..100: %v", q)
	}
	if q := quantile(all, 0.5); q != 51 || !slices.Equal(all, before) {
		t.Errorf("p50 of 1..100: %v", q)
	}
}
