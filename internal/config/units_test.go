package config_test

import (
	"strings"
	"testing"
	"time"

	"tollgate/internal/config"
)

// B96: the same rules in the file and in the environment.
func TestB96Durations(t *testing.T) {
	for _, test := range []struct {
		text string
		want time.Duration
		err  string // of the message
	}{
		{"30s", 30 * time.Second, ""},
		{"1.5s", 1500 * time.Millisecond, ""},
		{"1h30m", 90 * time.Minute, ""},
		{"'30s'", 30 * time.Second, ""},
		{"250ms", 250 * time.Millisecond, ""},
		{"30", 0, "30 has no unit: write 30s, 30ms or 30m"},
		{"'30'", 0, "30 has no unit: write 30s, 30ms or 30m"},
		{"1.5", 0, "1.5 has no unit"},
		{"0", 0, "0 has no unit"},
		{"0s", 0, "0s: want more than 0"},
		{"-5s", 0, "-5s is negative"},
		{"-5", 0, "-5 is negative"},
		{"9223372036854775807s", 0, "9223372036854775807s is too long: the longest is 2562047h"},
		{"1d", 0, "1d: the unit d does not exist, the longest is h: write 24h"},
		{"2w", 0, "2w: the unit w does not exist, the longest is h: write 336h"},
		{"''", 0, "is empty: want a duration with a unit, such as 30s"},
		{"2 minutes", 0, `"2 minutes" is not a duration`},
		{"1h-5m", 0, `"1h-5m" is not a duration`},
		{"+5s", 0, `"+5s" is not a duration`},
		{".5s", 0, `".5s" is not a duration`},
		{"true", 0, `"true" is not a duration`},
		{"[30s]", 0, "want a duration with a unit, such as 30s, have a list"},
	} {
		file := strings.Replace(minimal, "nats:\n", "limits: {shutdown_grace: "+test.text+"}\nnats:\n", 1)
		judge(t, "file "+test.text, file, noEnv, test.want, test.err, "tollgate.yaml:1:26  error  limits.shutdown_grace: ")
		if text := strings.Trim(test.text, "'"); !strings.HasPrefix(text, "[") {
			judge(t, "environment "+text, minimal, env("TOLLGATE_SHUTDOWN_GRACE", text), test.want, test.err,
				"TOLLGATE_SHUTDOWN_GRACE  error  limits.shutdown_grace: ")
		}
	}
}

func judge(t *testing.T, name, file string, env func(string) (string, bool), want time.Duration, message, prefix string) {
	t.Helper()
	c, err := config.Parse("tollgate.yaml", []byte(file), env)
	switch {
	case message == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case message == "" && c.Limits.ShutdownGrace.D() != want:
		t.Errorf("%s: got %v, want %v", name, c.Limits.ShutdownGrace.D(), want)
	case message != "" && (err == nil || !strings.HasPrefix(err.Error(), prefix+message)):
		t.Errorf("%s: got %v, want %s%s", name, err, prefix, message)
	}
}

// Zero is allowed only where it is documented.
func TestZeroDurations(t *testing.T) {
	file := strings.Replace(minimal, "max_retry_after: 5s", "max_retry_after: 0s", 1)
	if c := parse(t, file, noEnv); c.Policies["p"].MaxRetryAfter != 0 {
		t.Error("0s was not kept")
	}
	for _, key := range []string{"timeout: 2s", "max_deadline: 30s"} {
		name, _, _ := strings.Cut(key, ":")
		_, err := config.Parse("f", []byte(strings.Replace(minimal, key, name+": 0s", 1)), noEnv)
		if err == nil || !strings.Contains(err.Error(), "0s: want more than 0") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDurationsArePrintedAsTheyAreRead(t *testing.T) {
	for text, d := range map[string]time.Duration{
		"30s": 30 * time.Second, "1.5s": 1500 * time.Millisecond, "168h": 168 * time.Hour, "1h30m": 90 * time.Minute,
		"10m": 10 * time.Minute, "1h0m5s": time.Hour + 5*time.Second, "0s": 0, "20m": 20 * time.Minute, "10h": 10 * time.Hour,
	} {
		if got := config.Duration(d).String(); got != text {
			t.Errorf("%v: got %s, want %s", d, got, text)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]config.Size{"1B": 1, "512KiB": 512 << 10, "64MiB": 64 << 20, "2GiB": 2 << 30} {
		c := parse(t, "limits: {max_result: "+text+"}\n"+minimal, noEnv)
		if c.Limits.MaxResult != want || want.String() != text {
			t.Errorf("%s: got %d, printed %s", text, c.Limits.MaxResult, want)
		}
	}
	for _, text := range []string{"0KiB", "-1KiB", "1.5MiB", "999999999999999TiB", "KiB", "10 KiB", "''"} {
		if _, err := config.Parse("f", []byte("limits: {max_result: "+text+"}\n"+minimal), noEnv); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

func TestSync(t *testing.T) {
	c := parse(t, "ledger: {sync: 100ms}\n"+minimal, noEnv)
	if c.Ledger.Sync.Every != 100*time.Millisecond {
		t.Errorf("got %v", c.Ledger.Sync)
	}
	for _, text := range []string{"never", "0s", "1ns", "999us", "1", "off"} {
		_, err := config.Parse("f", []byte("ledger: {sync: "+text+"}\n"+minimal), noEnv)
		if err == nil || !strings.Contains(err.Error(), "always") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
