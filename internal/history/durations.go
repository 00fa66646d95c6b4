package history

import (
	"math"
	"time"
)

// buckets of durations grow by a quarter from a millisecond to an hour and a half, so
// a percentile is off by an eighth at most.
const (
	buckets = 70
	growth  = 1.25
)

// durations counts how often how long something took.
type durations [buckets]uint32

func (d *durations) add(t time.Duration) { d[bucket(t)]++ }

func (d *durations) merge(o *durations) {
	for i, n := range o {
		d[i] += n
	}
}

func bucket(t time.Duration) int {
	ms := float64(t) / float64(time.Millisecond)
	if ms < 1 {
		return 0
	}
	return min(buckets-1, 1+int(math.Log(ms)/math.Log(growth)))
}

func (d *durations) count() (n uint64) {
	for _, x := range d {
		n += uint64(x)
	}
	return n
}

// percentile is the duration that the given share of all stayed below: the middle of
// the bucket that it falls into.
func (d *durations) percentile(share float64) time.Duration {
	rank := uint64(math.Ceil(share * float64(d.count())))
	var seen uint64
	for i, x := range d {
		if seen += uint64(x); x > 0 && seen >= rank {
			return middle(i)
		}
	}
	return 0
}

func middle(i int) time.Duration {
	if i == 0 {
		return time.Millisecond / 2
	}
	return time.Duration(math.Pow(growth, float64(i)-0.5) * float64(time.Millisecond))
}
