package deadletter

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// mostDays is how old an age may be: more would wrap around into the future.
const mostDays = 100 * 366

var agePattern = regexp.MustCompile(`^(\d+)d(.*)$`)

// Instant reads a bound of a filter as people write one: an RFC 3339 time, or an age
// counted back from now, such as 90m, 2h or 3d. No text is no bound.
func Instant(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), nil
	}
	days, rest := 0, text
	var err error
	if m := agePattern.FindStringSubmatch(text); m != nil {
		days, err = strconv.Atoi(m[1])
		rest = m[2]
	}
	age := time.Duration(0)
	if rest != "" && err == nil {
		age, err = time.ParseDuration(rest)
	}
	if err != nil || age < 0 || days > mostDays {
		return time.Time{}, fmt.Errorf("%q is neither a time nor an age: try 2026-11-30T12:00:00Z, 2h or 3d", text)
	}
	return now.Add(-age).AddDate(0, 0, -days).UTC(), nil
}
