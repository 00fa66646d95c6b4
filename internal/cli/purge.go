package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/schemas"
)

// purge removes letters for good, so it wants to be sure: the number is typed, or
// given with the command. --yes alone is not enough.
type purge struct {
	eachLetter
	active  bool
	confirm int
}

func (s *shell) purgeCommand() *cobra.Command {
	p := &purge{eachLetter: eachLetter{shell: s, name: "purge", done: "purged", from: "discarded,resolved"}}
	p.do = func(ctx context.Context, id string) error {
		_, err := ask[control.Done](ctx, s, control.VerbPurge, control.PurgeQuery{ID: id, PurgeOptions: deadletter.PurgeOptions{Why: p.why, Active: p.active}})
		return err
	}
	p.sure = p.typed
	c := p.command("Remove dead letters for good: those that were discarded or resolved")
	c.Long = "Purge deletes letters from the stream. What was discarded or resolved goes by itself once it is older than\n" +
		"ledger.retention; purge is for sooner. Letters that nobody has dealt with are left unless --active says otherwise,\n" +
		"those being replayed always. Each one is audited. An export taken before can be imported again."
	c.Example = "  tollgate dlq purge --all --before 30d --why 'clean up' --dry-run\n  tollgate dlq purge 7qx4t9kd.0 --confirm 1"
	c.RunE = func(c *cobra.Command, args []string) error { return p.start(c.Context(), args) }
	f := c.Flags()
	f.StringVar(&p.filter.until, "before", "", "the same as --until")
	f.BoolVar(&p.active, "active", false, "also letters that nobody has dealt with")
	f.IntVar(&p.confirm, "confirm", 0, "how many letters this removes, instead of typing it")
	f.BoolVarP(&p.yes, "yes", "y", false, "accepted, as everywhere; this command needs --confirm")
	return c
}

func (p *purge) start(ctx context.Context, args []string) error {
	asked := strings.Split(p.filter.State, ",")
	for _, state := range asked {
		if !p.active && (state == string(schemas.LetterActive) || state == "all") {
			return usage("letters that nobody has dealt with are not purged", "tollgate dlq discard first, or tollgate dlq purge --active")
		}
	}
	if p.active {
		p.from += ",active"
	}
	return p.run(ctx, args)
}

// typed asks for the number of letters.
func (p *purge) typed(ctx context.Context, what string, n int) error {
	no := &fault{code: exitUnconfirmed, what: "not confirmed: " + what, why: "purged letters are gone", try: fmt.Sprintf("the same with --confirm %d", n)}
	if p.confirm != 0 || p.noInput || !p.inTTY {
		if p.confirm == n {
			return nil
		}
		if p.confirm != 0 {
			no.why = fmt.Sprintf("--confirm says %d, and there are %d", p.confirm, n)
		}
		return no
	}
	fmt.Fprintf(p.stderr, "%s for good? Type the number to confirm (%d): ", what, n)
	answer, err := p.readLine(ctx)
	switch {
	case errors.Is(err, errInterrupted):
		return err
	case answer == strconv.Itoa(n):
		return nil
	}
	return &fault{code: exitUnconfirmed, what: "not confirmed; nothing was done", cause: err}
}
