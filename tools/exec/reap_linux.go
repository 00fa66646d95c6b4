package exec

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// reapEvery is how often orphans are looked for. It is far longer than the owner of
// a child usually takes to collect it.
const reapEvery = 1500 * time.Millisecond

// Reap collects orphans until ctx ends. The first process of a container inherits
// every process whose parent has died, and until it collects them they fill the
// process table. Call it there, when os.Getpid() is 1, and nowhere else.
//
// No exit code is ever taken from os/exec: whoever started a child holds a pidfd of
// it until it is collected, and a child with a pidfd is left alone. Where the kernel
// has none, only what is still there a whole interval later counts as an orphan. It
// reads /proc, which has to be mounted.
func Reap(ctx context.Context) error {
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	var before map[zombie]bool
	for {
		now, err := zombies()
		if err != nil {
			return fmt.Errorf("looking for orphaned processes: %w", err)
		}
		if err := collect(now, before); err != nil {
			return fmt.Errorf("looking for the children that are waited for: %w", err)
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
	names, err := list("/proc")
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

// collect collects those that were there before and that nobody here waits for. The
// pidfds are read after the children: an owner that lets go has collected.
func collect(now, before map[zombie]bool) error {
	old := maps.Clone(now)
	maps.DeleteFunc(old, func(z zombie, _ bool) bool { return !before[z] })
	if len(old) == 0 {
		return nil
	}
	owned, err := pidfds()
	if err != nil {
		return err
	}
	for z := range old {
		if !owned[z.pid] {
			_, _ = unix.Wait4(z.pid, nil, unix.WNOHANG, nil) // gone already is as good
		}
	}
	return nil
}

// pidfds lists the processes that this process holds a pidfd of.
func pidfds() (map[int]bool, error) {
	names, err := list("/proc/self/fdinfo")
	if err != nil {
		return nil, err
	}
	held := map[int]bool{}
	for _, name := range names {
		info, err := os.ReadFile("/proc/self/fdinfo/" + name)
		if err != nil {
			continue // it is closed
		}
		for line := range bytes.Lines(info) {
			if number, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
				pid, _ := strconv.Atoi(string(bytes.TrimSpace(number)))
				held[pid] = true
			}
		}
	}
	return held, nil
}

func list(directory string) ([]string, error) {
	d, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
