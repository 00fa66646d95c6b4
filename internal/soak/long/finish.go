package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/internal/soak/flat"
)

// verifyEvery is the time between two verifies under load.
const verifyEvery = 2 * time.Minute

func (s *session) verifyAgainAndAgain(ctx context.Context) {
	for t := time.NewTicker(verifyEvery); ; {
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
			s.verify(ctx, time.Minute)
		}
	}
}

// verify asks for verify until it answers: whoever is asked may be killed over it.
func (s *session) verify(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var rep control.VerifyReport
	err := insist(ctx, within, func(ctx context.Context) error {
		rep = control.VerifyReport{}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		return s.agents.ctl.Ask(ctx, control.VerbVerify, control.Empty{}, &rep)
	})
	if err != nil {
		return false
	}
	for _, c := range rep.Checks {
		for _, f := range c.Faults {
			s.agents.book.fault("verify: %s (%s): %s", c.Name, c.What, f)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rep.OK {
		s.green++
	}
	return true
}

// finish checks what needs quiet.
func (s *session) finish(ctx context.Context) {
	b := s.agents.book
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := insist(within, 5*time.Second, s.quiet); err != nil {
		b.fault("after the end of every call: %v%s", err, s.left(ctx))
	}
	if !s.verify(ctx, 2*time.Minute) {
		b.fault("verify did not answer at the end")
	}
	paid := map[string]int{}
	for _, p := range s.world.Payments() {
		if paid[p.Tool+" "+p.Key]++; paid[p.Tool+" "+p.Key] == 2 {
			b.fault("I2: %s paid the key %s twice", p.Tool, p.Key)
		}
	}
}

// quiet says what is still under way.
func (s *session) quiet(ctx context.Context) error {
	var st control.Status
	if err := s.agents.ctl.Ask(ctx, control.VerbStatus, control.Empty{}, &st); err != nil {
		return err
	}
	err := error(nil)
	if !st.Ready || st.Running+st.Waiting+st.Owed+st.Ledger.Live+st.Letters > 0 {
		err = fmt.Errorf("ready %v, %d running, %d waiting, %d live, %d owed, %d active letters, ledger %q, letters %q", st.Ready, st.Running, st.Waiting,
			st.Ledger.Live, st.Owed, st.Letters, st.Ledger.Error, st.LettersError)
	}
	for _, name := range []string{"TOLLGATE_CALLS", "TOLLGATE_JOBS", "TOLLGATE_RETRY"} {
		var stream jetstream.Stream
		stream, looked := s.agents.js.Stream(ctx, name)
		if looked != nil {
			err = errors.Join(err, looked)
		} else if n := stream.CachedInfo().State.Msgs; n > 0 {
			err = errors.Join(err, fmt.Errorf("%s still holds %d messages", name, n))
		}
	}
	return err
}

// left lists the letters and calls that nobody has ended.
func (s *session) left(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var b strings.Builder
	var letters deadletter.Page
	err := s.agents.ctl.Ask(ctx, control.VerbLetterList, deadletter.Filter{Limit: 10}, &letters)
	for _, l := range letters.Letters {
		fmt.Fprintf(&b, "\n  letter %s of %s: %s %s, %s", l.ID, l.Tool, l.Reason, l.Code, l.State)
	}
	for _, state := range []string{"in_flight", "waiting"} {
		var calls control.CallsPage
		err = errors.Join(err, s.agents.ctl.Ask(ctx, control.VerbCallsList, control.CallsQuery{State: state, Limit: 10}, &calls))
		for _, c := range calls.Calls {
			fmt.Fprintf(&b, "\n  call %s of %s: %s, generation %d, due %v, deadline %v", c.Call, c.Tool, c.State, c.Generation, c.Due, c.Deadline)
		}
	}
	if err != nil {
		fmt.Fprintf(&b, "\n  and the rest cannot be told: %v", err)
	}
	return b.String()
}

// rule is when a series is flat. The warm-up is the time until the ledger forgets as
// much as it learns: it keeps a call for the retention and the longest call, and a run
// for as long as it may last.
func (o options) rule() flat.Rule {
	return flat.Rule{WarmUp: o.runs() + time.Minute, Until: o.length, Window: 20 * time.Second, Percent: 10, Least: 8 * time.Minute}
}

// lifeRule is when the dispatcher is flat within its one long life, where what leaks
// slowly shows. It keeps runs decoded, so its memory comes to rest when as many of them
// are forgotten as begin.
func (o options) lifeRule() flat.Rule {
	from, to := o.longLife()
	return flat.Rule{WarmUp: from + o.rule().WarmUp, Until: to, Window: 20 * time.Second, Percent: 20, Least: 5 * time.Minute}
}

// verdicts are those of all series over the run, and of the dispatcher's in its life.
func (s *session) verdicts() []flat.Verdict {
	all := s.o.rule().Judge(s.table)
	for _, v := range s.o.lifeRule().Judge(s.table)[:dispatcherThreads+1] {
		v.Series.What += ", in one life"
		all = append(all, v)
	}
	return all
}

// report writes everything down and says whether it was well.
func (s *session) report() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, rule := s.o, s.o.rule()
	verdicts := s.verdicts()
	for _, v := range verdicts {
		if v.Judged && !v.Flat {
			s.agents.book.fault("not flat: %v", v)
		}
	}
	ended, statuses := s.agents.book.counts()
	found := s.agents.book.found()
	plot := flat.Plot{Title: fmt.Sprintf("Soak: %v, %d outcomes, %d faults found", o.length, ended, len(found)), Rule: rule,
		Subtitle: fmt.Sprintf("seed %d; about %.4g calls a second; retention %v. Flat: the median slope of %v medians after %v may not rise by more than %.4g%% (or a small constant) in 10 min.",
			o.seed, o.rate, o.retention, rule.Window, rule.WarmUp, rule.Percent),
		Kinds: []flat.Kind{{Name: killDispatcher, Colour: "#c0392b"}, {Name: stopDispatcher, Colour: "#2980b9"}, {Name: killServer, Colour: "#000000"},
			{Name: fullLedger, Colour: "#e67e22"}, {Name: fullServer, Colour: "#8e44ad"}, {Name: cureServer, Colour: "#16a085"}}}
	err := errors.Join(
		save(filepath.Join(o.out, "soak.csv"), s.table.WriteCSV),
		save(filepath.Join(o.out, "soak.svg"), func(w io.Writer) error { return plot.Write(w, s.table) }),
		save(filepath.Join(o.out, "summary.txt"), func(w io.Writer) error {
			w = io.MultiWriter(w, os.Stdout)
			fmt.Fprintf(w, "seed %d, %v: %d outcomes %v\n%v\n%v\nverify green %d times; %d commits failed\n", o.seed, o.length, ended, statuses,
				s.programs.dispatcher, s.programs.server, s.green, s.failed)
			for _, v := range verdicts {
				fmt.Fprintf(w, "%v\n", v)
			}
			for i, f := range found {
				if i == 20 {
					fmt.Fprintf(w, "and %d more, in faults.log\n", len(found)-i)
					break
				}
				fmt.Fprintf(w, "FAULT %s\n", f)
			}
			return nil
		}))
	if len(found) > 0 {
		err = errors.Join(err, fmt.Errorf("%d faults", len(found)))
	}
	return err
}

func save(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
