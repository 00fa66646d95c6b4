package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tollgate/control"
	"tollgate/internal/soak/flat"
)

// The series, in the order in which they are drawn. Memory is what the process alone
// holds: the pages of the ledger's file, which lies in memory here, are not its own.
const (
	dispatcherMemory = iota
	dispatcherHeap
	dispatcherGoroutines
	dispatcherFiles
	dispatcherThreads
	ledgerSpace
	serverMemory
	serverFiles
	serverThreads
	serverSpace
	auditSpace
	callRate
	callsOpen
)

const mib = 1 << 20

func newTable() *flat.Table {
	return flat.NewTable(
		flat.Series{Name: "tollgate_rss_anon_bytes", What: "tollgate: memory of its own", Unit: "B", Slack: 8 * mib},
		flat.Series{Name: "tollgate_heap_bytes", What: "tollgate: heap", Unit: "B", Slack: 6 * mib},
		flat.Series{Name: "tollgate_goroutines", What: "tollgate: goroutines", Slack: 15},
		flat.Series{Name: "tollgate_fds", What: "tollgate: file descriptors", Slack: 4},
		flat.Series{Name: "tollgate_threads", What: "tollgate: threads", Slack: 4},
		flat.Series{Name: "ledger_disk_bytes", What: "ledger: space on its disk", Unit: "B", Slack: 4 * mib},
		flat.Series{Name: "server_rss_anon_bytes", What: "nats-server: memory of its own", Unit: "B", Slack: 16 * mib},
		flat.Series{Name: "server_fds", What: "nats-server: file descriptors", Slack: 6},
		flat.Series{Name: "server_threads", What: "nats-server: threads", Slack: 4},
		flat.Series{Name: "server_disk_bytes", What: "nats-server: streams on its disk, audit aside", Unit: "B", Slack: 12 * mib},
		flat.Series{Name: "audit_disk_bytes", What: "nats-server: audit stream (kept for ever)", Unit: "B", Free: true},
		flat.Series{Name: "calls_per_second", What: "outcomes a second", Free: true},
		flat.Series{Name: "runs_open", What: "runs under way", Free: true},
	)
}

const (
	every   = 2 * time.Second
	settled = 5 * time.Second // a life younger than this is still starting
)

// sample measures from outside until ctx ends.
func (s *session) sample(ctx context.Context) {
	last := 0
	for t := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		at := time.Since(s.began)
		s.sampleProcesses(ctx, at)
		s.add(ledgerSpace, at, taken(s.programs.ledgerDisk.dir))
		audit := taken(filepath.Join(s.programs.serverStore, "jetstream", "$G", "streams", "TOLLGATE_AUDIT"))
		s.add(auditSpace, at, audit)
		s.add(serverSpace, at, taken(s.programs.serverStore)-audit)
		ended, _ := s.agents.book.counts()
		s.add(callRate, at, int64(float64(ended-last)/every.Seconds()))
		last = ended
		s.add(callsOpen, at, s.open.Load())
	}
}

func (s *session) sampleProcesses(ctx context.Context, at time.Duration) {
	if pid, age := s.programs.server.life(); pid != 0 && age > settled {
		s.addProcess(at, pid, serverMemory, serverFiles, serverThreads)
	}
	pid, age := s.programs.dispatcher.life()
	if pid == 0 || age < settled {
		return
	}
	s.addProcess(at, pid, dispatcherMemory, dispatcherFiles, dispatcherThreads)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var st control.Status
	if err := s.agents.ctl.Ask(ctx, control.VerbStatus, control.Empty{}, &st); err != nil {
		return // it, or the server, is dying just now
	}
	s.add(dispatcherHeap, at, int64(st.Runtime.HeapBytes))
	s.add(dispatcherGoroutines, at, int64(st.Runtime.Goroutines))
	s.sawCommits(st.Ledger)
}

func (s *session) addProcess(at time.Duration, pid, memory, files, threads int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return // it has just ended
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return
	}
	s.add(memory, at, field(string(status), "RssAnon:")<<10)
	s.add(threads, at, field(string(status), "Threads:"))
	s.add(files, at, int64(len(fds)))
}

// field is a number of /proc/PID/status.
func field(status, name string) int64 {
	_, rest, _ := strings.Cut(status, name)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(words[0], 10, 64) // the kernel writes numbers
	return n
}

func (s *session) add(series int, at time.Duration, value int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Add(series, at, float64(value))
}
