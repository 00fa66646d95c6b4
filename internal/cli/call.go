package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/schemas"
)

// submission is one call as it was typed.
type submission struct {
	tool, run, key, deadline, policy string
	attempts, effects                int
	runDeadline, lane                string
	detach                           bool
	body                             []byte
}

func (s *shell) callCommand() *cobra.Command {
	var q submission
	c := &cobra.Command{Use: "call TOOL [ARGS | @FILE | -]", Short: "Call a tool and wait for its one outcome",
		Long: "Arguments are one JSON object, @ a file, or - standard input; nothing is {}. The tool gets them byte for byte.\n" +
			"Without --key the key is made from run, tool and arguments; without --run the call is a run of its own.\n" +
			"The result goes to standard output, a summary to standard error; see tollgate help exit-codes.",
		Example: "  tollgate call demo.echo '{\"text\":\"hi\"}' --run r1 --key r1:1\n  tollgate call report.render @args.json --lane jobs",
		Args:    between(1, 2, "a tool and its arguments"), ValidArgsFunction: s.completeTools,
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.readCall(c, &q, args); err != nil {
				return err
			}
			if q.detach || q.lane == string(schemas.Jobs) {
				return s.submit(c.Context(), q)
			}
			return s.do(c.Context(), q)
		}}
	f := c.Flags()
	f.StringVar(&q.run, "run", "", "run path the call belongs to and is paid from, such as run_42/researcher")
	f.StringVar(&q.key, "key", "", "idempotency key: one logical operation")
	f.StringVar(&q.deadline, "deadline", "", "RFC 3339 time, or from now such as 30s (default the policy's window)")
	f.StringVar(&q.policy, "policy", "", "one of the tool's policies")
	f.IntVar(&q.attempts, "run-attempts", 0, "most attempts of the run")
	f.IntVar(&q.effects, "run-side-effects", 0, "most dispatches of the run that may change something")
	f.StringVar(&q.runDeadline, "run-deadline", "", "the run's own deadline")
	f.StringVar(&q.lane, "lane", string(schemas.Calls), "calls or jobs; a job is published and left alone")
	f.BoolVar(&q.detach, "detach", false, "publish it and do not wait")
	complete(c, "lane", string(schemas.Calls), string(schemas.Jobs))
	return c
}

// readCall checks what was typed before anything is sent.
func (s *shell) readCall(c *cobra.Command, q *submission, args []string) error {
	q.tool = args[0]
	var err error
	if q.body, err = s.arguments(args[1:]); err != nil {
		return err
	}
	if _, err := dedupe.Fingerprint(q.body); err != nil {
		return usage("the arguments are not one JSON object: "+err.Error(), `tollgate call `+q.tool+` '{"name":"value"}'`)
	}
	if q.run == "" {
		q.run = "cli-" + strings.ToLower(rand.Text()[:12])
	}
	if q.key == "" {
		q.key = dispatcher.DerivedKey(q.tool, q.run, q.body)
	}
	switch {
	case !schemas.ValidTool(q.tool):
		return usage(quoted(q.tool)+" is not a tool's name", "tollgate tools ls")
	case !schemas.ValidRun(q.run):
		return usage("--run "+quoted(q.run)+" is not a run path", "up to 8 segments of letters, digits, _ : - joined by slashes")
	case !schemas.ValidKey(q.key):
		return usage("--key is not an idempotency key", "1 to 255 visible ASCII characters without spaces")
	case q.lane != string(schemas.Calls) && q.lane != string(schemas.Jobs):
		return usage("--lane "+quoted(q.lane)+" is neither calls nor jobs", "--lane jobs")
	}
	if !c.Flags().Changed("run-attempts") {
		q.attempts = -1
	}
	if !c.Flags().Changed("run-side-effects") {
		q.effects = -1
	}
	if q.deadline, err = s.deadline("--deadline", q.deadline); err != nil {
		return err
	}
	q.runDeadline, err = s.deadline("--run-deadline", q.runDeadline)
	return err
}

const maxArguments = 64 << 20

func (s *shell) arguments(args []string) ([]byte, error) {
	switch {
	case len(args) == 0:
		return []byte("{}"), nil
	case args[0] == "-":
		return io.ReadAll(io.LimitReader(s.stdin, maxArguments))
	case strings.HasPrefix(args[0], "@"):
		body, err := os.ReadFile(args[0][1:])
		if err != nil {
			return nil, &fault{code: exitUsage, what: "cannot read the arguments", why: err.Error(), cause: err}
		}
		return body, nil
	}
	return []byte(args[0]), nil
}

// deadline reads a time or a duration from now, as the header wants it.
func (s *shell) deadline(flag, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return s.now().Add(d).UTC().Format(time.RFC3339Nano), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return "", usage(flag+" "+quoted(text)+" is neither a time nor a duration", flag+" 30s or "+flag+" 2026-11-30T12:00:00Z")
	}
	return t.UTC().Format(time.RFC3339Nano), nil
}

// message is the submission on the wire.
func (s *shell) message(subject string, q submission) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = q.body
	for name, value := range map[string]string{schemas.HeaderRun: q.run, schemas.HeaderKey: q.key, schemas.HeaderDeadline: q.deadline,
		schemas.HeaderPolicy: q.policy, schemas.HeaderRunDeadline: q.runDeadline} {
		if value != "" {
			m.Header.Set(name, value)
		}
	}
	if q.attempts >= 0 {
		m.Header.Set(schemas.HeaderRunAttempts, fmt.Sprint(q.attempts))
	}
	if q.effects >= 0 {
		m.Header.Set(schemas.HeaderRunSideEffects, fmt.Sprint(q.effects))
	}
	return m
}

// longestCall is how long the command waits for a call that names no deadline. A
// longer one is better detached.
const longestCall = 30 * time.Minute

// do asks the request/reply endpoint and shows the outcome.
func (s *shell) do(ctx context.Context, q submission) error {
	o, err := s.outcomeOf(ctx, q)
	if err != nil {
		return err
	}
	return s.printOutcome(o)
}

func (s *shell) outcomeOf(ctx context.Context, q submission) (*schemas.Outcome, error) {
	nc, err := s.connect()
	if err != nil {
		return nil, err
	}
	wait := longestCall
	if t, err := time.Parse(time.RFC3339Nano, q.deadline); err == nil {
		wait = max(0, t.Sub(s.now())) + s.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	reply, err := nc.RequestMsgWithContext(ctx, s.message(s.subjects.Do(s.tenantOrDefault(), q.tool), q))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &fault{code: exitUnreachable, what: "no outcome within " + brief(wait), why: "the call may still go on", try: "tollgate result --run " + q.run + " --tool " + q.tool + " --key " + q.key + " --wait 1m"}
	}
	if err != nil {
		return nil, err
	}
	var o schemas.Outcome
	if err := json.Unmarshal(reply.Data, &o); err != nil || o.Status == "" {
		return nil, &fault{code: exitFailure, what: "the answer is no outcome", why: cmpOr(reply.Header.Get(schemas.HeaderServiceError), string(reply.Data))}
	}
	return &o, nil
}

// submit publishes the call to its stream and leaves it there. The message ID is
// random: the ledger deduplicates, the stream's window would swallow other calls. The
// stream wants a deadline; where none was named, one beyond every policy's window
// stands for it, and the window holds. The endpoint fills the window in by itself.
func (s *shell) submit(ctx context.Context, q submission) error {
	nc, err := s.connect()
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	q.deadline = cmpOr(q.deadline, s.now().AddDate(1, 0, 0).UTC().Format(time.RFC3339))
	m := s.message(s.subjects.Submit(schemas.Lane(q.lane), s.tenantOrDefault(), q.tool), q)
	ack, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(rand.Text()))
	if err != nil {
		return fmt.Errorf("publish the call: %w", err)
	}
	id := dedupe.CallID(s.tenantOrDefault(), schemas.Root(q.run), q.tool, q.key)
	if s.json {
		return s.printJSON("Submitted", map[string]any{"call": id, "run": q.run, "key": q.key, "tool": q.tool, "lane": q.lane, "stream": ack.Stream, "seq": ack.Sequence})
	}
	s.line("%s", id)
	s.say("submitted: %s#%d  run %s  key %s", ack.Stream, ack.Sequence, q.run, q.key)
	s.next("tollgate result " + id + " --wait 30s")
	return nil
}
