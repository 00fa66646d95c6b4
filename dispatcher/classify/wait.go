package classify

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// longestWait separates a wait from a mistake: what is longer is an epoch or a
// date somebody wrote as seconds, not a time to come back.
const longestWait = 366 * 24 * time.Hour

// dateLayouts are the three forms of an HTTP date (RFC 9110, 5.6.7).
var dateLayouts = []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 MST", time.ANSIC}

// RetryAfter reads a Retry-After header: whole seconds, or an HTTP date. Zero
// means that no usable wait was stated, and the dispatcher's own backoff applies:
//
//	"7", or a date 7 s ahead       7s
//	"0", a date in the past        absent: a tool cannot ask for no backoff at all
//	"", "soon", "-5", "+3", "1.5"  absent: not what the RFC allows, not guessed at
//	epoch seconds, overflow        absent: nobody means to wait for years
func RetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if digits(value) {
		s, err := strconv.ParseInt(value, 10, 64)
		if err != nil || s > math.MaxInt64/int64(time.Second) {
			return 0
		}
		return sensible(time.Duration(s) * time.Second)
	}
	for _, layout := range dateLayouts {
		if at, err := time.Parse(layout, value); err == nil {
			return sensible(at.Sub(now))
		}
	}
	return 0
}

func digits(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}

func sensible(d time.Duration) time.Duration {
	if d <= 0 || d > longestWait {
		return 0
	}
	return d
}
