package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tollgate/internal/config"
)

func ExampleCheck() {
	c, err := config.Parse("tollgate.yaml", config.Example(), func(string) (string, bool) { return "", false })
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range config.Check(c) {
		for _, p := range s.Policies {
			fmt.Println(s.Tool, s.Kind, s.Effect, s.Safety, s.Dependency, p.Lane, p.Name, p.Attempts, p.WorstTime)
		}
	}
	// Output:
	// crm.find http read  crm calls interactive 3 15.6s
	// crm.find http read  crm jobs background 8 26m15s
	// crm.upsert http write idempotency_key crm calls interactive 3 15.6s
	// crm.upsert http write idempotency_key crm jobs background 8 26m15s
	// mail.send nats write never mail.send calls interactive 3 15.6s
	// report.render exec write idempotent reports jobs background 8 26m15s
	// weather.get http read  weather.get calls interactive 3 15.6s
}

// The file that config init writes is a good one: nothing is even doubtful.
func TestTheExampleIsWithoutWarnings(t *testing.T) {
	if w := parse(t, string(config.Example()), noEnv).Warnings(); len(w) > 0 {
		t.Errorf("%v", w)
	}
	if !strings.HasPrefix(string(config.Example()), "# yaml-language-server: $schema=") {
		t.Error("the example does not name its schema to editors")
	}
	if strings.Contains(string(config.Example()), "\t") {
		t.Error("the example has tabs")
	}
}

func TestWorstTimeStopsAtTheDeadline(t *testing.T) {
	for edit, want := range map[string]time.Duration{
		"attempts: 3":                   3*2*time.Second + 200*time.Millisecond + 400*time.Millisecond,
		"attempts: 1":                   2 * time.Second,
		"attempts: 1000000000":          30 * time.Second,
		"attempts: 9223372036854775807": 30 * time.Second,
	} {
		c := parse(t, strings.Replace(minimal, "attempts: 3", edit, 1), noEnv)
		if got := config.Check(c)[0].Policies[0].WorstTime.D(); got != want {
			t.Errorf("%s: got %v, want %v", edit, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	file := strings.Replace(minimal, "attempts: 3", "attempts: 50", 1)
	file = strings.Replace(file, "calls: [p]", "calls: [p], jobs: [p]", 1)
	file = strings.Replace(file, "tools:\n", "dependencies: {db: {}}\ntools:\n", 1)
	file += "    retry_safety: idempotency_key\n    key_retention: 30s\n"
	var got []string
	for _, w := range parse(t, file, noEnv).Warnings() {
		got = append(got, w.String())
	}
	want := []string{
		"tollgate.yaml:5:5  warning  policies.p.attempts: 50 attempts of 2s take 1m40s, more than the max_deadline 30s: slow calls end before their last attempt",
		"tollgate.yaml:5:5  warning  policies.p.attempts: 50 is more than run.attempts 40, which ends the call first",
		"tollgate.yaml:11:16  warning  dependencies.db: no tool stands on it",
		"tollgate.yaml:13:3  warning  tools.a: takes jobs, but its retry quota has no refill_per_s: while nothing succeeds, an empty quota holds retries until their deadline",
		"tollgate.yaml:15:24  warning  tools.a.policies.calls[0]: a call may last 30s, but the tool's key_retention 30s is trusted for nine tenths of it only: later attempts are not made",
		"tollgate.yaml:15:35  warning  tools.a.policies.jobs[0]: a call may last 30s, but the tool's key_retention 30s is trusted for nine tenths of it only: later attempts are not made",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
