package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tollgate/control"
	"tollgate/internal/demo"
	"tollgate/internal/soak/flat"
)

// errStopped is the cause when somebody stops the soak: what is unfinished then is
// nobody's fault.
var errStopped = errors.New("the soak was stopped")

// session is one soak.
type session struct {
	o        options
	programs *programs
	agents   *agents
	world    *demo.World
	began    time.Time
	open     atomic.Int64 // runs under way

	mu      sync.Mutex // guards below
	table   *flat.Table
	epoch   uint64 // of the ledger, when it was last seen
	commits uint64 // failed ones of that epoch
	failed  uint64 // commits in all
	green   int    // verifies
}

// mostOpen bounds the runs under way: while nothing works, agents wait rather than
// pile up calls without end.
const mostOpen = 400

// soak is one whole soak, inside the namespace.
func soak(interrupted context.Context, o options) (err error) {
	ctx, stop := context.WithCancelCause(context.Background())
	defer context.AfterFunc(interrupted, func() { stop(errStopped) })()
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	faults, err := os.Create(filepath.Join(o.out, "faults.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, faults.Close()) }()
	s := &session{o: o, table: newTable()}
	b := newBook(faults)
	if s.world, err = demo.Start(ctx, filepath.Join(o.inside, "world")); err != nil {
		return err
	}
	if s.programs, err = newPrograms(o, s.world.URL(), b.fault); err != nil {
		return err
	}
	go s.programs.server.run()
	defer s.programs.server.close()
	go s.programs.dispatcher.run()
	defer s.programs.dispatcher.close()
	if s.agents, err = newAgents(s.programs.url, s.world, b, o.window()); err != nil {
		return err
	}
	defer s.agents.nc.Close()
	if err := s.awaitStart(ctx); err != nil {
		return err
	}
	fmt.Printf("soak of seed %d: %v of %v calls a second, results in %s\n", o.seed, o.length, o.rate, o.out)
	s.began = time.Now()
	return s.phases(ctx)
}

func (s *session) awaitStart(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := insist(within, time.Second, func(ctx context.Context) error {
		var st control.Status
		return s.agents.ctl.Ask(ctx, control.VerbStatus, control.Empty{}, &st)
	})
	if err != nil {
		return fmt.Errorf("tollgate does not serve; its log is %s: %w", s.programs.dispatcher.log.Name(), err)
	}
	return nil
}

// phases: load and faults; then, without faults, the end of every call; then the
// checks that need quiet.
func (s *session) phases(ctx context.Context) error {
	measuring, measured := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.sample(measuring) })
	wg.Go(func() { s.supervise(measuring) })
	wg.Go(func() { s.verifyAgainAndAgain(measuring) })
	var troubled sync.WaitGroup
	troubled.Go(func() { s.makeTrouble(ctx) })
	s.load(ctx)
	troubled.Wait()
	measured()
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return errors.Join(err, s.report())
	}
	s.finish(ctx)
	return s.report()
}

// load starts runs at a steady rate and returns when all have ended.
func (s *session) load(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	next := time.NewTicker(time.Duration(callsPerRun / s.o.rate * float64(time.Second)))
	defer next.Stop()
	for i := 0; time.Since(s.began) < s.o.length; {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if s.open.Load() >= mostOpen {
			continue
		}
		steps := planned(s.o.seed, i)
		i++
		s.open.Add(1)
		wg.Go(func() {
			defer s.open.Add(-1)
			s.agents.run(ctx, steps)
		})
	}
}

// makeTrouble does what the schedule says.
func (s *session) makeTrouble(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, t := range schedule(rand.New(rand.NewPCG(s.o.seed, 1<<63)), s.o) {
		select {
		case <-time.After(time.Until(s.began.Add(t.at))):
		case <-ctx.Done():
			return
		}
		s.event(t.kind, t.length)
		wg.Go(func() { s.do(t) })
	}
}

func (s *session) do(t trouble) {
	var err error
	switch p := s.programs; t.kind {
	case killDispatcher:
		p.dispatcher.end(syscall.SIGKILL)
	case stopDispatcher:
		p.dispatcher.restart(time.Minute)
	case killServer:
		p.server.end(syscall.SIGKILL)
	case fullLedger:
		err = p.ledgerDisk.fill(t.length)
	case fullServer:
		err = p.serverDisk.fill(t.length)
	}
	if err != nil {
		s.agents.book.fault("%s: %v", t.kind, err)
	}
}

func (s *session) event(kind string, length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := flat.Event{At: time.Since(s.began), Kind: kind}
	if length > 0 {
		e.Until = e.At + length
	}
	s.table.Events = append(s.table.Events, e)
}

// supervise restarts a server that stays unhealthy with room on its disk: after a
// failed write nats-server takes no more until it is started again.
func (s *session) supervise(ctx context.Context) {
	ill := 0
	for t := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		_, age := s.programs.server.life()
		if age < settled || !s.programs.serverDisk.well(2*time.Second) {
			ill = 0
			continue
		}
		illness := s.programs.illness()
		if illness == nil {
			ill = 0
			continue
		}
		if ill++; ill >= 3 {
			s.event(cureServer, 0)
			fmt.Printf("%v nats-server is restarted: %v\n", time.Since(s.began).Round(time.Second), illness)
			s.programs.server.restart(time.Minute)
			ill = 0
		}
	}
}

// sawCommits adds up the commits that failed in every life of the dispatcher.
func (s *session) sawCommits(l control.LedgerStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Epoch != s.epoch {
		s.epoch, s.commits = l.Epoch, 0
	}
	s.failed += l.Failed - s.commits
	s.commits = l.Failed
}
