package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate/control"
	"tollgate/dedupe"
)

const (
	lookAfter    = 700 * time.Millisecond // between two looks: publications under way take less
	looks        = 3
	mostSuspects = 10_000 // looked at again
	mostFaults   = 100    // named, per check
)

// suspect is something that looked wrong, and how to look again. version names
// everything it depends on: while that moves, it is under way and no fault.
type suspect struct {
	check   *control.Check
	version string
	look    func(ctx context.Context) (version, fault string, err error)
}

// looked counts one look and remembers what looked wrong.
func (v *verifier) looked(c *control.Check, fault string, again func(context.Context) (string, string, error)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.Checked++
	if fault != "" && len(v.suspects) < mostSuspects {
		v.suspects = append(v.suspects, suspect{check: c, look: again})
	}
}

// lookAgain clears the suspects that were only under way. What is wrong twice
// without having moved in between is a fault.
func (v *verifier) lookAgain(ctx context.Context) error {
	suspects := v.suspects
	for range looks {
		if len(suspects) == 0 {
			return nil
		}
		if err := sleep(ctx, lookAfter); err != nil {
			return err
		}
		var moving []suspect
		for _, s := range suspects {
			version, fault, err := s.look(ctx)
			switch {
			case err != nil:
				return err
			case fault == "":
			case version == s.version:
				blame(s.check, fault)
			default:
				s.version = version
				moving = append(moving, s)
			}
		}
		suspects = moving
	}
	return nil
}

func blame(c *control.Check, fault string) {
	switch n := len(c.Faults); {
	case n < mostFaults:
		c.Faults = append(c.Faults, fault)
	case n == mostFaults:
		c.Faults = append(c.Faults, "and more: repair these first")
	}
}

// recordAgain looks at a call's record as it is now.
func (v *verifier) recordAgain(ctx context.Context, c recordCheck, call string) (version, fault string, err error) {
	r, err := v.Ledger.Record(call)
	if errors.Is(err, dedupe.ErrNotFound) {
		return "", "", nil // it has expired
	}
	if err != nil || !c.concerns(r) {
		return "", "", err
	}
	fault, err = c.look(ctx, v, r)
	return versionOf(r), fault, err
}

func versionOf(r *dedupe.Record) string {
	return fmt.Sprintf("%s %s generation %d token %d fence %d", r.Call, r.State, r.Generation, r.Token, r.Fence)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
