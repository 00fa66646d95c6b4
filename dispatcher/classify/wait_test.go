package classify_test

import (
	"strconv"
	"testing"
	"time"

	"tollgate/dispatcher/classify"
)

// B38: every value that has been misread somewhere.
func TestRetryAfter(t *testing.T) {
	date := func(d time.Duration) string { return now.Add(d).Format("Mon, 02 Jan 2006 15:04:05 GMT") }
	tests := map[string]time.Duration{
		"7":                   7 * time.Second,
		" 7 ":                 7 * time.Second,
		"86400":               24 * time.Hour,
		date(7 * time.Second): 7 * time.Second,
		now.Add(7 * time.Second).Format(time.ANSIC):                       7 * time.Second,
		now.Add(7 * time.Second).Format("Monday, 02-Jan-06 15:04:05 GMT"): 7 * time.Second,
		date(-time.Hour):                    0,
		date(0):                             0,
		date(100 * 365 * 24 * time.Hour):    0,
		"0":                                 0,
		"-5":                                0,
		"+3":                                0,
		"1.5":                               0,
		"":                                  0,
		"soon":                              0,
		"7s":                                0,
		"٧":                                 0,
		"99999999999999999999":              0,
		"9223372036854775807":               0,
		"9223372036":                        0,
		strconv.FormatInt(now.Unix()+7, 10): 0,
	}
	for value, want := range tests {
		if got := classify.RetryAfter(value, now); got != want {
			t.Errorf("Retry-After %q: got %v, want %v", value, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"7", "-5", "1.5", "99999999999999999999", "Sun, 01 Mar 2026 12:00:07 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if d := classify.RetryAfter(value, now); d < 0 || d > 367*24*time.Hour {
			t.Errorf("Retry-After %q waits %v", value, d)
		}
	})
}
