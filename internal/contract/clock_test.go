package contract

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// dispatcherLog keeps the dispatcher's log for a test to read.
type dispatcherLog struct {
	mu  sync.Mutex // guards all
	all strings.Builder
}

func (l *dispatcherLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *dispatcherLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// metronome measures how late the machine itself is: it beats every 10 ms, writes
// and syncs a byte, and keeps the longest that one beat took. What a promise leaves
// to scheduling is added to that, so that a busy machine fails no test and a late
// dispatcher does.
type metronome struct {
	mu    sync.Mutex // guards worst
	worst time.Duration
}

const beat = 10 * time.Millisecond

func startMetronome(t *testing.T) *metronome {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "beat"))
	if err != nil {
		t.Fatal(err)
	}
	m, stop := &metronome{}, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			began := time.Now()
			select {
			case <-stop:
				return
			case <-time.After(beat):
			}
			_, _ = f.WriteAt([]byte{1}, 0)
			_ = f.Sync()
			m.note(time.Since(began) - beat)
		}
	})
	t.Cleanup(func() { close(stop); wg.Wait(); f.Close() })
	return m
}

func (m *metronome) note(late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worst = max(m.worst, late)
}

// late is what an upper bound is raised by: the 0.3 s that the promises leave, and
// for each of agent, server, dispatcher and tool what the machine was late by.
func (m *metronome) late() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return late + 4*m.worst
}
