package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/internal/app"
	"tollgate/schemas"
)

// story is one telling.
type story struct {
	out   io.Writer
	world *World
	agent agent
	ctl   control.Client
	run   string
}

// storyWithin bounds a telling: it takes a few seconds.
const storyWithin = time.Minute

// Story starts everything under dir (a temporary one when it is ""), sends real
// calls over a real connection, says what became of each, and checks all of it. It
// returns an error when anything went otherwise than told.
func Story(ctx context.Context, out io.Writer, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tollgate-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	ctx, cancel := context.WithTimeout(ctx, storyWithin)
	defer cancel()
	world, err := Start(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	c, err := Config(Place{Dir: dir, Listen: "127.0.0.1:0"}, world.URL())
	if err != nil {
		return err
	}
	a, err := app.Start(ctx, app.Options{Config: c, Functions: Functions(), Log: zerolog.Nop(), Version: "demo"})
	if err != nil {
		return fmt.Errorf("start the dispatcher: %w", err)
	}
	defer func() {
		a.Stop()
		err = errors.Join(err, a.Wait())
	}()
	nc, err := nats.Connect(a.ClientURL(), nats.Name("demonstration agent"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	subjects, err := schemas.NewSubjects("")
	if err != nil {
		return err
	}
	s := &story{out: out, world: world, agent: agent{nc, js}, run: "run-" + time.Now().UTC().Format("150405"),
		ctl: control.Client{NATS: nc, Subjects: subjects, By: "demo"}}
	fmt.Fprintf(out, "Tollgate: an embedded NATS at %s, tools at %s, files in %s\n", a.ClientURL(), world.URL(), dir)
	return s.tell(ctx)
}

func (s *story) tell(ctx context.Context) error {
	for i, c := range s.chapters() {
		fmt.Fprintf(s.out, "\n%d. %s\n", i+1, c.title)
		if err := c.tell(ctx); err != nil {
			return fmt.Errorf("chapter %d (%s): %w", i+1, c.title, err)
		}
	}
	return nil
}

// send makes a call, prints what became of it, and holds it to what was expected.
func (s *story) send(ctx context.Context, q request, want schemas.Status, code string) (*schemas.Outcome, error) {
	if q.run == "" {
		q.run = s.run
	}
	o, err := s.agent.call(ctx, q)
	if err != nil {
		return nil, err
	}
	s.show(o)
	if o.Status != want || code != "" && o.Code() != code {
		return o, fmt.Errorf("%s, key %s: it ended %s %s, and should have ended %s %s", q.tool, q.key, o.Status, o.Code(), want, code)
	}
	return o, nil
}

// show prints an outcome and where it went.
func (s *story) show(o *schemas.Outcome) {
	line := fmt.Sprintf("   %-10s key %-8s → %s", o.Tool, o.Key, o.Status)
	if code := o.Code(); code != "" {
		line += " " + code
	}
	if o.Repeated {
		line += " (the stored outcome, given again)"
	}
	fmt.Fprintln(s.out, line)
	if history := attempts(o); history != "" {
		fmt.Fprintf(s.out, "      attempts: %s; run has used %d of %d\n", history, o.Budget.Attempts.Used, o.Budget.Attempts.Limit)
	}
	where := "results." + o.Tenant + "." + schemas.Root(o.Run) + "." + o.Call
	if o.Status == schemas.Rejected {
		where += ".refused"
	}
	fmt.Fprintf(s.out, "      outcome:  tollgate.%s\n", where)
	if o.Status == schemas.Failed || o.Status == schemas.UnknownOutcome || o.Status == schemas.Exhausted {
		fmt.Fprintf(s.out, "      letter:   %s\n", dedupe.LetterID(o.Call, o.Generation))
	}
	if o.IsError {
		fmt.Fprintf(s.out, "      says:     %s\n", firstLine(o.Error.Message))
	}
}

func attempts(o *schemas.Outcome) string {
	var all []string
	for _, a := range o.Attempts {
		said := "ok"
		if a.Class != "" && a.Code != "" {
			said = a.Code
		}
		if a.DelayMS > 0 {
			said += fmt.Sprintf(", wait %dms", a.DelayMS)
		}
		all = append(all, said)
	}
	return strings.Join(all, " → ")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
