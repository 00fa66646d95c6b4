package control

import (
	"context"
	"maps"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// Status is the state of the dispatcher.
type Status struct {
	Version       string         `json:"version"`
	Started       time.Time      `json:"started"`
	Ready         bool           `json:"ready"`
	Missing       []string       `json:"missing,omitempty"` // why it is not, as /readyz tells it
	Owner         bool           `json:"owner"`             // this process owns the ledger; without it nothing is claimed
	Guarantee     string         `json:"guarantee"`
	Ledger        LedgerStatus   `json:"ledger"`
	Streams       []StreamStatus `json:"streams"`
	Running       int            `json:"running"`
	Waiting       int            `json:"waiting"` // for their next attempt
	Owed          int            `json:"owed"`    // publications not yet stored
	Abandoned     int64          `json:"abandoned"`
	Letters       int            `json:"letters"` // active dead letters
	OldestLetter  time.Time      `json:"oldest_letter,omitzero"`
	LettersError  string         `json:"letters_error,omitempty"` // why they could not be counted
	ClockOffsetMS int64          `json:"clock_offset_ms"`         // of the server against this process
	Paused        []string       `json:"paused,omitempty"`
	Breakers      []BreakerState `json:"breakers,omitempty"`  // of the dependencies that are not served freely
	Attention     []Attention    `json:"attention,omitempty"` // what somebody should look at, the worst first
	Runtime       RuntimeStatus  `json:"runtime"`
}

// RuntimeStatus is the process itself: what only grows in it is a leak.
type RuntimeStatus struct {
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heap_bytes"` // of objects, those not yet collected included
	UptimeMS   int64  `json:"uptime_ms"`
}

// BreakerState is a dependency whose breaker is not closed.
type BreakerState struct {
	Dependency string   `json:"dependency"`
	State      string   `json:"state"` // open or half-open
	Tools      []string `json:"tools"` // that stand on it
}

// LedgerStatus is the state of the ledger.
type LedgerStatus struct {
	ID       string `json:"id"`
	Epoch    uint64 `json:"epoch"`
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Live     int    `json:"live"`
	Terminal int    `json:"terminal"`
	Runs     int    `json:"runs"`
	Commits  uint64 `json:"commits"`
	Failed   uint64 `json:"failed_commits"`
	CommitUS int64  `json:"last_commit_us"`
	Error    string `json:"error,omitempty"`
	Sync     string `json:"sync"`
}

// StreamStatus is the state of one stream.
type StreamStatus struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	MaxBytes int64  `json:"max_bytes"`
	Error    string `json:"error,omitempty"`
}

func (s *Server) status(ctx context.Context, _ Empty, _ string) (Status, error) {
	results, audits, slots := s.cfg.Ledger.Pending()
	st := Status{Version: s.cfg.Version, Started: s.started, Owner: s.cfg.Owner(), Ledger: s.cfg.Ledgers(), Owed: results + audits + slots, Runtime: runtimeStatus(s.started),
		Abandoned: s.cfg.Dispatcher.Abandoned.Load(), Guarantee: "one dispatcher, one local ledger: a key never executes twice while the file is kept"}
	st.Missing = s.cfg.Missing()
	st.Ready = len(st.Missing) == 0
	st.Running, st.Waiting = s.cfg.Ledger.Counts()
	for _, name := range s.cfg.Streams {
		st.Streams = append(st.Streams, s.stream(ctx, name, &st))
	}
	// Status is what one looks at when a part is broken, so a broken part is shown in
	// it and never fails it.
	tally, err := s.cfg.Letters.Tally(ctx)
	for _, n := range tally.By {
		st.Letters += n
	}
	st.OldestLetter = tally.Oldest
	if err != nil {
		st.LettersError, st.Ready = err.Error(), false
		st.Missing = append(st.Missing, "letters: they could not be counted: "+err.Error())
	}
	st.Paused = slices.Sorted(maps.Keys(s.cfg.Ledger.Pauses()))
	st.Breakers = s.breakers()
	st.Attention = s.attention(&st, tally)
	return st, nil
}

// breakers are those that are not closed.
func (s *Server) breakers() []BreakerState {
	tools := map[string][]string{}
	for _, t := range s.cfg.Tools {
		tools[t.Dependency] = append(tools[t.Dependency], t.Name)
	}
	var out []BreakerState
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if state := s.cfg.Dispatcher.Health(name).Breaker; state != "closed" && state != "off" {
			out = append(out, BreakerState{Dependency: name, State: state, Tools: tools[name]})
		}
	}
	return out
}

// runtimeStatus does not stop the world, as reading the memory's statistics would.
func runtimeStatus(started time.Time) RuntimeStatus {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	st := RuntimeStatus{Goroutines: runtime.NumGoroutine(), UptimeMS: time.Since(started).Milliseconds()}
	if heap[0].Value.Kind() == metrics.KindUint64 {
		st.HeapBytes = heap[0].Value.Uint64()
	}
	return st
}

func (s *Server) stream(ctx context.Context, name string, st *Status) StreamStatus {
	out := StreamStatus{Name: name}
	stream, err := s.cfg.JetStream.Stream(ctx, name)
	if err != nil {
		out.Error = err.Error()
		st.Ready = false
		return out
	}
	info := stream.CachedInfo()
	out.Messages, out.Bytes, out.MaxBytes = info.State.Msgs, info.State.Bytes, info.Config.MaxBytes
	st.ClockOffsetMS = time.Until(info.TimeStamp).Milliseconds()
	return out
}
