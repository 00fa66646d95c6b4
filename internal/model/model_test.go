package model

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollgate/internal/natstest"
)

// fast is how many sequences an ordinary test run plays.
const fast = 200

// perHouse is how many sequences share a server, a ledger and their past.
const perHouse = 25

// mostReal is how long a sequence may take. It takes a tenth of a second, but a machine
// with other work to do may leave it waiting; what hangs does so for ever.
const mostReal = 20 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	if err := setDefaults(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// setDefaults sets how many sequences are drawn and from which seed, where nobody
// has: the seed is printed, so that any run can be repeated.
func setDefaults() error {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	defaults := map[string]string{"rapid.checks": fmt.Sprint(sequences), "rapid.seed": fmt.Sprint(time.Now().UnixNano()), "rapid.nofailfile": "true"}
	for name, value := range defaults {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			return err
		}
	}
	fmt.Printf("model: %s sequences from -rapid.seed=%s\n", flag.Lookup("rapid.checks").Value, flag.Lookup("rapid.seed").Value)
	return nil
}

// I1 to I14, as far as they can be seen from outside, whatever comes in whatever order.
func TestI1ToI14RandomSequences(t *testing.T) {
	s := &street{t: t}
	defer s.leave()
	rapid.Check(t, func(rt *rapid.T) {
		p := plans.Draw(rt, "plan")
		if problems := s.play(p); len(problems) > 0 {
			rt.Fatalf("%s\nthe sequence:\n%s", strings.Join(problems, "\n"), p)
		}
		if s.played%(5*fast) == 0 {
			fmt.Printf("model: %d sequences played\n", s.played)
		}
	})
	// rapid stops early and is content when the test's time is nearly up.
	if want, _ := strconv.Atoi(flag.Lookup("rapid.checks").Value.String()); s.played < want {
		t.Errorf("played %d of %d sequences in the time there was: raise -timeout, or lower -rapid.checks", s.played, want)
	}
}

// street is one house after the other. rapid draws and shrinks outside of their
// bubbles, in real time; while it does, time in the house stands still.
type street struct {
	t      *testing.T
	played int
	todo   chan plan
	done   chan []string
	gone   chan struct{}
}

// play plays a sequence in the present house, or in a new one.
func (s *street) play(p plan) []string {
	if s.played++; s.todo == nil || s.played%perHouse == 0 {
		s.leave()
		s.move()
	}
	select {
	case s.todo <- p:
	case <-s.gone:
	}
	select {
	case problems := <-s.done:
		if len(problems) > 0 {
			s.leave() // what was wrong may last
		}
		return problems
	case <-s.gone:
		s.todo = nil
		return []string{"the house broke down; what the test logged says why"}
	case <-time.After(mostReal):
		s.todo = nil // it is left behind
		return []string{fmt.Sprintf("the sequence did not end within %s of real time: something in the house waits for a mutex, or spins", mostReal)}
	}
}

func (s *street) move() {
	s.todo, s.done, s.gone = make(chan plan), make(chan []string), make(chan struct{})
	todo, done, gone := s.todo, s.done, s.gone
	go func() {
		defer close(gone)
		natstest.Bubble(s.t, func(t *testing.T) {
			h := newHouse(t)
			n := 0
			for p := range todo {
				n++
				problems := play(h, fmt.Sprintf("run-%d", n), p)
				done <- problems
			}
		})
	}()
}

func (s *street) leave() {
	if s.todo == nil {
		return
	}
	close(s.todo)
	<-s.gone
	s.todo = nil
}
