package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"tollgate/consumer"
	"tollgate/control"
	"tollgate/dedupe"
	"tollgate/schemas"
)

func (s *shell) resultCommand() *cobra.Command {
	var run, key, tool string
	var wait time.Duration
	generation := -1
	c := &cobra.Command{Use: "result [CALL]", Short: "The stored outcome of a call", Args: between(0, 1, "a call"),
		Long: "The outcome is read from the results stream: no dispatcher is needed, except for shortened call IDs.\n" +
			"With --wait, the outcome of a replay that is under way is waited for, not the one before it.",
		Example: "  tollgate result --run r1 --tool demo.echo --key r1:1\n  tollgate result 0d8f3k2aab --wait 30s",
		RunE: func(c *cobra.Command, args []string) error {
			root := "*"
			var call string
			switch {
			case len(args) == 1 && run+key+tool == "":
				call, _, _ = strings.Cut(args[0], ".") // a letter's ID names its call
			case len(args) == 0 && run != "" && key != "" && tool != "":
				root = schemas.Root(run)
				call = dedupe.CallID(s.tenantOrDefault(), root, tool, key)
			default:
				return usage("which call?", "tollgate result CALL, or --run, --tool and --key together")
			}
			if c.Flags().Changed("generation") && generation < 0 {
				return usage("--generation must not be negative", "--generation 1 is the first replay")
			}
			return s.result(c.Context(), root, call, awaited{generation, wait})
		}}
	f := c.Flags()
	f.StringVar(&run, "run", "", "run path the call was made with")
	f.StringVar(&key, "key", "", "its idempotency key")
	f.StringVar(&tool, "tool", "", "its tool")
	f.DurationVar(&wait, "wait", 0, "wait this long for an outcome that is not there yet")
	f.IntVar(&generation, "generation", -1, "of this replay or a later one; 0 is the call itself (default the last, with --wait the current)")
	f.Lookup("generation").DefValue = ""
	return c
}

// awaited is which outcome is wanted: of at least this generation, -1 for the current
// one, and how long it may take to come.
type awaited struct {
	generation int
	wait       time.Duration
}

// current asks the ledger which generation a call is in. Without a dispatcher, or one
// that knows the call, any outcome that is stored is the current one.
func (s *shell) current(ctx context.Context, call string) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	d, err := ask[control.CallDetail](ctx, s, control.VerbCallShow, control.IDQuery{ID: call})
	if err != nil {
		return 0
	}
	return d.Generation
}

func (s *shell) result(ctx context.Context, root, call string, want awaited) error {
	if !dedupe.ValidCallID(call) {
		d, err := ask[control.CallDetail](ctx, s, control.VerbCallShow, control.IDQuery{ID: call})
		if err != nil {
			return err
		}
		call = d.Call
	}
	if want.generation < 0 && want.wait > 0 {
		want.generation = s.current(ctx, call)
	}
	nc, err := s.connect()
	if err != nil {
		return err
	}
	tenant := cmpOr(s.tenant, "*")
	subjects := []string{s.subjects.Result(tenant, root, call), s.subjects.Refused(tenant, root, call)}
	live := make(chan *nats.Msg, 16)
	for _, subject := range subjects { // before the stream is read, so that nothing falls between
		sub, err := nc.ChanSubscribe(subject, live)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	if err := nc.FlushTimeout(s.timeout); err != nil {
		return err
	}
	o, err := s.storedResult(ctx, nc, subjects, want.generation)
	if err != nil {
		return err
	}
	if o == nil && want.wait > 0 {
		o = nextOutcome(ctx, live, want)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if o == nil {
		what := "no outcome of call " + call + " is stored"
		if want.generation > 0 {
			what = fmt.Sprintf("no outcome of replay %d of call %s is stored", want.generation, call)
		}
		return &fault{code: exitNotFound, what: what, why: "it has not ended, was never submitted, or its outcome has expired", try: "--wait 30s, or tollgate calls show " + call}
	}
	return s.printOutcome(o)
}

// storedResult reads the outcome, or the refusal where there is none; nil is neither,
// or only that of an earlier generation.
func (s *shell) storedResult(ctx context.Context, nc *nats.Conn, subjects []string, generation int) (*schemas.Outcome, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	st, err := js.Stream(ctx, consumer.StreamNames(s.subjects).Results)
	if err != nil {
		return nil, err
	}
	for _, subject := range subjects {
		m, err := st.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		o := new(schemas.Outcome)
		if err := json.Unmarshal(m.Data, o); err != nil {
			return nil, fmt.Errorf("read the stored outcome: %w", err)
		}
		if o.Generation >= generation {
			return o, nil
		}
	}
	return nil, nil
}

// nextOutcome is the first that comes of the generation that is wanted, or nil.
func nextOutcome(ctx context.Context, from <-chan *nats.Msg, want awaited) *schemas.Outcome {
	timer := time.NewTimer(want.wait)
	defer timer.Stop()
	for {
		select {
		case m := <-from:
			o := new(schemas.Outcome)
			if json.Unmarshal(m.Data, o) == nil && o.Generation >= want.generation {
				return o
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
