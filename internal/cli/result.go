package cli

import (
	"context"
	"encoding/json"
	"errors"
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
	c := &cobra.Command{Use: "result [CALL]", Short: "The stored outcome of a call", Args: between(0, 1, "a call"),
		Long:    "The outcome is read from the results stream: no dispatcher is needed, except for shortened call IDs.",
		Example: "  tollgate result --run r1 --tool demo.echo --key r1:1\n  tollgate result 0d8f3k2aab --wait 30s",
		RunE: func(c *cobra.Command, args []string) error {
			root := "*"
			var call string
			switch {
			case len(args) == 1 && run+key+tool == "":
				call = args[0]
			case len(args) == 0 && run != "" && key != "" && tool != "":
				root = schemas.Root(run)
				call = dedupe.CallID(s.tenantOrDefault(), root, tool, key)
			default:
				return usage("which call?", "tollgate result CALL, or --run, --tool and --key together")
			}
			return s.result(c.Context(), root, call, wait)
		}}
	f := c.Flags()
	f.StringVar(&run, "run", "", "run path the call was made with")
	f.StringVar(&key, "key", "", "its idempotency key")
	f.StringVar(&tool, "tool", "", "its tool")
	f.DurationVar(&wait, "wait", 0, "wait this long for an outcome that is not there yet")
	return c
}

func (s *shell) result(ctx context.Context, root, call string, wait time.Duration) error {
	if !dedupe.ValidCallID(call) {
		d, err := ask[control.CallDetail](ctx, s, control.VerbCallShow, control.IDQuery{ID: call})
		if err != nil {
			return err
		}
		call = d.Call
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
	body, err := s.storedResult(ctx, nc, subjects)
	if err != nil {
		return err
	}
	if body == nil && wait > 0 {
		body = nextMessage(ctx, live, wait)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if body == nil {
		return &fault{code: exitNotFound, what: "no outcome of call " + call + " is stored", why: "it has not ended, was never submitted, or its outcome has expired", try: "--wait 30s, or tollgate calls show " + call}
	}
	var o schemas.Outcome
	if err := json.Unmarshal(body, &o); err != nil {
		return err
	}
	return s.printOutcome(&o)
}

// storedResult reads the outcome, or the refusal where there is none; nil is neither.
func (s *shell) storedResult(ctx context.Context, nc *nats.Conn, subjects []string) ([]byte, error) {
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
		switch {
		case err == nil:
			return m.Data, nil
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return nil, err
		}
	}
	return nil, nil
}

func nextMessage(ctx context.Context, from <-chan *nats.Msg, wait time.Duration) []byte {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case m := <-from:
		return m.Data
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}
