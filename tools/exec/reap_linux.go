package exec

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// reapEvery is how often orphans are collected. It is far longer than any owner of
// a child takes to collect it, and that is how the two are told apart.
const reapEvery = 1500 * time.Millisecond

// Reap collects orphans until ctx ends. The first process of a container inherits
// every process whose parent has died, and until it collects them they fill the
// process table. Call it there, when os.Getpid() is 1, and nowhere else.
//
// A child that somebody in this process waits for is collected at once by whoever
// does. Only what is still there a whole interval later is an orphan, so no exit
// code is ever taken from os/exec. It reads /proc, which has to be mounted.
func Reap(ctx context.Context) error {
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	var before map[zombie]bool
	for {
		now, err := zombies()
		if err != nil {
			return fmt.Errorf("looking for orphaned processes: %w", err)
		}
		for z := range now {
			if before[z] {
				_, _ = unix.Wait4(z.pid, nil, unix.WNOHANG, nil) // gone already is as good
			}
		}
		before = now
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// zombie is an ended child that nobody has collected. The start time tells a
// process from a later one with its number.
type zombie struct {
	pid   int
	start string
}

func zombies() (map[zombie]bool, error) {
	names, err := procNames()
	if err != nil {
		return nil, err
	}
	self, found := strconv.Itoa(os.Getpid()), map[zombie]bool{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it is gone
		}
		// pid (name, which may hold anything) state parent …, field 22 is the start.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) > 19 && string(f[0]) == "Z" && string(f[1]) == self {
			found[zombie{pid, string(f[19])}] = true
		}
	}
	return found, nil
}

func procNames() ([]string, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
