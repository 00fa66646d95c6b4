package demo

import (
	"context"
	"fmt"
	"slices"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/schemas"
)

// chapter is one part of the story: its telling fails when it did not go as titled.
type chapter struct {
	title string
	tell  func(ctx context.Context) error
}

func (s *story) chapters() []chapter {
	var letter *schemas.Outcome // of the chapter that leaves the letter to be replayed
	return []chapter{
		{"A call that works", s.works},
		{"The same key again: the stored outcome, and the tool is not asked", s.again},
		{"The same key with other arguments: refused", s.conflict},
		{"A tool that fails twice and recovers", s.recovers},
		{"A payment whose answer is lost: asked again under the same key, and paid once", s.lostKeyed},
		{"A tool that stays down: the call runs out of attempts", func(ctx context.Context) (err error) {
			letter, err = s.staysDown(ctx)
			return err
		}},
		{"A transfer that must never be repeated, and its answer is lost: nobody guesses", s.lostNever},
		{"A run with a budget of two attempts", s.outOfBudget},
		{"The dead letters", s.letters},
		{"The tool is mended, and the letter is replayed", func(ctx context.Context) error { return s.replay(ctx, letter) }},
		{"What the tools really saw", s.counted},
		{"tollgate verify", s.verify},
	}
}

func payment(mode string, cents int64) Args { return Args{Mode: mode, Cents: cents, To: "ACME"} }

func (s *story) works(ctx context.Context) error {
	if _, err := s.send(ctx, request{tool: "demo.echo", key: "step-1", args: map[string]string{"text": "hello"}}, schemas.Succeeded, ""); err != nil {
		return err
	}
	_, err := s.send(ctx, request{tool: "demo.pay", key: "step-2", args: payment("", 1250)}, schemas.Succeeded, "")
	return err
}

func (s *story) again(ctx context.Context) error {
	o, err := s.send(ctx, request{tool: "demo.pay", key: "step-2", args: payment("", 1250)}, schemas.Succeeded, "")
	if err == nil && !o.Repeated {
		err = fmt.Errorf("the outcome is not marked as repeated")
	}
	return err
}

func (s *story) conflict(ctx context.Context) error {
	_, err := s.send(ctx, request{tool: "demo.pay", key: "step-2", args: payment("", 990000)}, schemas.Rejected, schemas.CodeKeyConflict)
	return err
}

func (s *story) recovers(ctx context.Context) error {
	o, err := s.send(ctx, request{tool: "demo.flaky", key: "step-3", args: Args{Mode: ModeFlaky, Fails: 2}}, schemas.Succeeded, "")
	if err == nil && len(o.Attempts) != 3 {
		err = fmt.Errorf("it took %d attempts instead of 3", len(o.Attempts))
	}
	return err
}

func (s *story) lostKeyed(ctx context.Context) error {
	o, err := s.send(ctx, request{tool: "demo.pay", key: "step-4", args: payment(ModeLost, 700)}, schemas.Succeeded, "")
	if err == nil && !o.ToolRepeated {
		err = fmt.Errorf("the provider did not say that it had paid already")
	}
	return err
}

func (s *story) staysDown(ctx context.Context) (*schemas.Outcome, error) {
	return s.send(ctx, request{tool: "demo.flaky", key: "step-5", args: Args{Mode: ModeDown}}, schemas.Exhausted, schemas.CodeCallAttempts)
}

func (s *story) lostNever(ctx context.Context) error {
	_, err := s.send(ctx, request{tool: "demo.wire", key: "step-6", args: payment(ModeLost, 500000)}, schemas.UnknownOutcome, "")
	return err
}

func (s *story) outOfBudget(ctx context.Context) error {
	small, two := s.run+"-small", map[string]string{schemas.HeaderRunAttempts: "2"}
	o, err := s.send(ctx, request{tool: "demo.flaky", run: small, key: "step-1", args: Args{Mode: ModeDown}, header: two}, schemas.Exhausted, schemas.CodeRunBudget)
	if err != nil {
		return err
	}
	if len(o.Attempts) != 2 {
		return fmt.Errorf("a budget of 2 attempts allowed %d", len(o.Attempts))
	}
	o, err = s.send(ctx, request{tool: "demo.echo", run: small, key: "step-2", args: map[string]string{"text": "another tool"}, header: two}, schemas.Exhausted, schemas.CodeRunBudget)
	if err == nil && len(o.Attempts) != 0 {
		err = fmt.Errorf("an exhausted run was allowed another attempt")
	}
	return err
}

func (s *story) letters(ctx context.Context) error {
	var page deadletter.Page
	if err := s.ctl.Ask(ctx, control.VerbLetterList, deadletter.Filter{}, &page); err != nil {
		return err
	}
	reasons := map[string]int{}
	for _, l := range page.Letters {
		reasons[l.Reason]++
		fmt.Fprintf(s.out, "   %s  %-20s %-10s key %-8s %d attempts\n      next:     %s\n", l.ID, l.Reason, l.Tool, l.Key, l.Attempts, firstLine(l.NextStep))
	}
	if reasons[schemas.ReasonExhaustedAttempts] != 3 || reasons[schemas.ReasonUnknownOutcome] != 1 || len(page.Letters) != 4 {
		return fmt.Errorf("there should be 3 letters of exhausted attempts and 1 of an unknown outcome: %v", reasons)
	}
	return nil
}

func (s *story) replay(ctx context.Context, dead *schemas.Outcome) error {
	s.world.Heal()
	var done control.Done
	q := control.ReplayQuery{ID: dedupe.LetterID(dead.Call, dead.Generation), ReplayOptions: deadletter.ReplayOptions{Why: "the tool is mended"}}
	if err := s.ctl.Ask(ctx, control.VerbReplay, q, &done); err != nil {
		return err
	}
	o, err := s.agent.outcome(ctx, dead, dead.Generation+1)
	if err != nil {
		return err
	}
	s.show(o)
	if o.Status != schemas.Succeeded {
		return fmt.Errorf("the replay ended %s", o.Status)
	}
	return nil
}

// counted holds the tools' own books against what was told.
func (s *story) counted(context.Context) error {
	var keys []string
	for _, p := range s.world.Payments() {
		fmt.Fprintf(s.out, "   %s  %-10s %8.2f to %s\n", p.ID, p.Tool, float64(p.Cents)/100, p.To)
		if slices.Contains(keys, p.Key) {
			return fmt.Errorf("the key %s moved money twice", p.Key)
		}
		keys = append(keys, p.Key)
	}
	if len(keys) != 3 {
		return fmt.Errorf("the provider made %d payments, and should have made 3", len(keys))
	}
	n := 0
	for _, tool := range []string{"demo.flaky", "demo.pay", "demo.wire"} {
		for _, requests := range s.world.Requests(tool) {
			n += requests
		}
	}
	fmt.Fprintf(s.out, "   %d requests in all, and no payment twice\n", n)
	if want := 14; n != want {
		return fmt.Errorf("the tools saw %d requests, and should have seen %d", n, want)
	}
	return nil
}

func (s *story) verify(ctx context.Context) error {
	var report control.VerifyReport
	if err := s.ctl.Ask(ctx, control.VerbVerify, control.Empty{}, &report); err != nil {
		return err
	}
	for _, c := range report.Checks {
		mark := "ok"
		if len(c.Faults) > 0 {
			mark = "FAULT"
		}
		fmt.Fprintf(s.out, "   %-5s %-8s %s (%d checked)\n", mark, c.Name, c.What, c.Checked)
		for _, f := range c.Faults {
			fmt.Fprintf(s.out, "         %s\n", f)
		}
	}
	if !report.OK {
		return fmt.Errorf("the invariants do not hold")
	}
	fmt.Fprintln(s.out, "   all invariants hold")
	return nil
}
