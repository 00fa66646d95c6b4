package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is written with units, as in 30s, 1.5s or 1h30m. A bare number is
// refused: nobody remembers of what.
type Duration time.Duration

// D returns the duration as the rest of the program knows it.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	s := time.Duration(d).String()
	if trimmed := strings.TrimSuffix(s, "m0s"); trimmed != s {
		s = trimmed + "m"
	}
	if trimmed := strings.TrimSuffix(s, "h0m"); trimmed != s {
		s = trimmed + "h"
	}
	return s
}

const durationUnits = `(ns|us|µs|μs|ms|s|m|h)`

var (
	durationShape = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?` + durationUnits + `)+$`)
	bareNumber    = regexp.MustCompile(`^[+-]?[0-9._]+([eE][+-]?[0-9]+)?$`)
	longUnit      = regexp.MustCompile(`^([0-9]+)(d|w)$`)
)

func parseDuration(text string) (Duration, error) {
	long := longUnit.FindStringSubmatch(text)
	switch {
	case text == "":
		return 0, errors.New("is empty: want a duration with a unit, such as 30s")
	case bareNumber.MatchString(text) && !strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("%s has no unit: write %[1]ss, %[1]sms or %[1]sm", text)
	case strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("%s is negative: want a duration such as 30s", text)
	case long != nil:
		return 0, fmt.Errorf("%s: the unit %s does not exist, the longest is h%s", text, long[2], inHours(long[1], long[2]))
	case !durationShape.MatchString(text):
		return 0, fmt.Errorf("%q is not a duration: want one with a unit, such as 30s, 1.5s or 1h30m", text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s is too long: the longest is %dh", text, int64(math.MaxInt64/time.Hour))
	}
	return Duration(d), nil
}

// inHours suggests how days and weeks are written.
func inHours(number, unit string) string {
	n, err := strconv.Atoi(number)
	if err != nil || n > 10000 {
		return ""
	}
	hours := 24 * n
	if unit == "w" {
		hours *= 7
	}
	return fmt.Sprintf(": write %dh", hours)
}

// Size is a number of bytes, written as in 512KiB or 64MiB.
type Size int64

var (
	sizeShape = regexp.MustCompile(`^([0-9]{1,15})(B|KiB|MiB|GiB|TiB)$`)
	sizeUnits = map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
)

func (s Size) String() string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if n := sizeUnits[unit]; s > 0 && int64(s)%n == 0 {
			return fmt.Sprintf("%d%s", int64(s)/n, unit)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}

func parseSize(text string) (Size, error) {
	m := sizeShape.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size: want a whole number with B, KiB, MiB, GiB or TiB, such as 512KiB", text)
	}
	n, _ := strconv.ParseInt(m[1], 10, 64) // 15 digits fit
	unit := sizeUnits[m[2]]
	if n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%s is too big", text)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s: want more than 0", text)
	}
	return Size(n * unit), nil
}

// Sync is how often something is forced to the disk; zero is always.
type Sync struct{ Every time.Duration }

func (s Sync) String() string {
	if s.Every == 0 {
		return "always"
	}
	return Duration(s.Every).String()
}

func parseSync(text string) (Sync, error) {
	if text == "always" {
		return Sync{}, nil
	}
	d, err := parseDuration(text)
	if err == nil && d.D() < time.Millisecond { // the embedded server divides it
		err = fmt.Errorf("%s: want always, or at least 1ms", text)
	}
	if err != nil {
		return Sync{}, fmt.Errorf("%w (or always)", err)
	}
	return Sync{d.D()}, nil
}
