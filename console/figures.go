package console

import (
	"fmt"
	"time"
)

// size is a number of bytes.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// seen is a count that may not have been read.
func seen(n int) string {
	if n < 0 {
		return "–"
	}
	return fmt.Sprint(n)
}

func percent(n uint64, of int64) int { return int(100 * float64(n) / float64(of)) }

func micro(us int64) string { return (time.Duration(us) * time.Microsecond).String() }
