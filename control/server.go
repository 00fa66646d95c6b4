package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"tollgate/budget"
	"tollgate/deadletter"
	"tollgate/dedupe"
	"tollgate/dispatcher"
	"tollgate/replays"
	"tollgate/schemas"
)

// Ledger is what the services ask the ledger.
type Ledger interface {
	deadletter.Ledger
	dispatcher.Records
	Run(tenant, root string) (*budget.Run, error)
	Runs(func(*budget.Run) bool) error
	Records(after uint64, f func(seq uint64, r *dedupe.Record) bool) error
	Resolve(prefix string) ([]string, error)
	SetPause(ctx context.Context, tool string, p *dedupe.Pause, audit func(was *dedupe.Pause) dedupe.Audit) (dedupe.Receipt, error)
	Pauses() map[string]dedupe.Pause
	Pending() (results, audits, slots int)
	Counts() (running, waiting int)
}

// Config is what the services stand on. All fields are required but the last three.
type Config struct {
	NATS       *nats.Conn
	JetStream  jetstream.JetStream
	Subjects   schemas.Subjects
	Streams    []string // their names
	Retry      string   // name of the retry stream
	Audit      string   // and of the audit
	Lanes      map[schemas.Lane]string
	Dispatcher *dispatcher.Dispatcher
	Requests   dispatcher.Requests
	Ledger     Ledger
	Letters    *deadletter.Operations
	Replays    *replays.Runner
	Tools      []*dispatcher.Tool
	Schemas    map[string]json.RawMessage // of the tools' arguments
	Publish    func([]dedupe.Audit)
	Verify     func(context.Context) (VerifyReport, error)
	Backup     func(path string) (int64, error)
	Ledgers    func() LedgerStatus
	Owner      func() bool
	History    func(now time.Time, window, step time.Duration) History
	Missing    func() []string                              // why the dispatcher is not ready, a line each
	Link       func(name string, role Role) (string, error) // makes a one-time link to the console
	Settings   func() Settings
	Version    string
	Log        zerolog.Logger
	Replies    []string // prefixes that may be answered; nil: _INBOX.
	AtOnce     int      // requests at once; 0: 4096
	Serving    func()   // called when whoever asks is answered; nil: nobody waits for it
}

// Server answers the micro services.
type Server struct {
	cfg     Config
	started time.Time
	slots   chan struct{}
	serving context.Context // ends when a stop begins
	base    context.Context // ends with ErrShutdown when running attempts are given up
	wg      sync.WaitGroup
}

// Serve answers until ctx ends, then waits for what it has begun. work is handed to
// attempts and outlives ctx by the shutdown grace.
func Serve(ctx, work context.Context, cfg Config) error {
	if cfg.AtOnce == 0 {
		cfg.AtOnce = 4096
	}
	if cfg.Replies == nil {
		cfg.Replies = []string{"_INBOX."}
	}
	s := &Server{cfg: cfg, started: time.Now(), slots: make(chan struct{}, cfg.AtOnce), serving: ctx, base: work}
	svc, err := micro.AddService(cfg.NATS, micro.Config{Name: "tollgate", Version: semver(cfg.Version),
		Description: "tool calls that are charged, deduplicated and accounted for"})
	if err != nil {
		return fmt.Errorf("start the control services: %w", err)
	}
	p := cfg.Subjects.Prefix
	err = errors.Join(
		svc.AddEndpoint("do", s.handler(s.do), micro.WithEndpointSubject(p+".do.*.>")),
		svc.AddEndpoint("cancel", s.handler(s.permitted(VerbCancel, s.cancel)), micro.WithEndpointSubject(p+".cancel.*")),
	)
	verbs := s.verbs()
	maps.Copy(verbs, s.replaysVerbs())
	maps.Copy(verbs, s.accessVerbs())
	for verb, h := range verbs {
		err = errors.Join(err, svc.AddEndpoint(strings.ReplaceAll(verb, ".", "-"), s.handler(s.permitted(verb, h)), micro.WithEndpointSubject(cfg.Subjects.Control(verb))))
	}
	if err == nil {
		err = cfg.NATS.Flush() // whoever asks after Serve has begun finds us
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start the control services: %w", err), svc.Stop())
	}
	if cfg.Serving != nil {
		cfg.Serving()
	}
	<-ctx.Done()
	err = svc.Stop()
	s.wg.Wait()
	return err
}

// semver makes a version that micro accepts out of any build's version.
func semver(v string) string {
	v = strings.TrimPrefix(v, "v")
	if strings.Count(strings.SplitN(v, "-", 2)[0], ".") == 2 {
		return v
	}
	return "0.0.0-dev"
}

// handler runs f for each request on a goroutine of its own, a bounded number at
// once, and only where its answer may go: an agent chooses the reply subject, and
// an answer must not land in a stream.
func (s *Server) handler(f func(micro.Request)) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		if !s.mayReply(r.Reply()) {
			s.cfg.Log.Warn().Str("subject", r.Subject()).Str("reply", r.Reply()).Msg("request ignored: its reply subject is not one we answer on")
			return
		}
		select {
		case s.slots <- struct{}{}:
		default:
			s.fail(r, Problem{Code: 503, What: "too many requests at once; nothing was accepted", Try: "again later"})
			return
		}
		s.wg.Go(func() {
			defer func() { <-s.slots }()
			defer func() {
				if p := recover(); p != nil {
					s.cfg.Log.Error().Str("subject", r.Subject()).Str("panic", fmt.Sprint(p)).Msg("request panicked")
					s.fail(r, Problem{Code: 500, What: "internal error; see the dispatcher's log"})
				}
			}()
			f(r)
		})
	})
}

func (s *Server) mayReply(reply string) bool {
	if strings.HasPrefix(reply, "_R_.") { // the server's own, for imported requests
		return true
	}
	for _, p := range s.cfg.Replies {
		if strings.HasPrefix(reply, p) {
			return true
		}
	}
	return false
}

// respond answers. What does not fit a message is said to be so: an operator must
// never wait for an answer that cannot come.
func (s *Server) respond(r micro.Request, v any) {
	body, err := json.Marshal(v)
	if most := s.cfg.NATS.MaxPayload(); err == nil && int64(len(body)) > most {
		s.fail(r, Problem{Code: 413, What: fmt.Sprintf("the answer has %d bytes, and the server takes messages of %d", len(body), most), Try: "ask for less, such as with --limit or a filter"})
		return
	}
	if err == nil {
		err = r.Respond(body)
	}
	if err != nil {
		s.cfg.Log.Warn().Err(err).Str("subject", r.Subject()).Msg("answer not sent")
	}
}

func (s *Server) fail(r micro.Request, p Problem) {
	body, err := json.Marshal(p)
	if err == nil {
		err = refuse(r, p.Code, p.What, body)
	}
	if err != nil {
		s.cfg.Log.Warn().Err(err).Str("subject", r.Subject()).Msg("answer not sent")
	}
}

// refuse answers with the headers of a failed micro request. The request's own Error
// notes it in the request as well, for the service's counters, while the subscription
// that has handed the request to us reads it: a race.
func refuse(r micro.Request, code int, what string, body []byte) error {
	return r.Respond(body, micro.WithHeaders(micro.Headers{
		schemas.HeaderServiceError: {oneLine(what)}, schemas.HeaderServiceErrorCode: {strconv.Itoa(code)}}))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// problem words an error for an operator.
func problem(err error) Problem {
	if p, is := replayProblem(err); is {
		return p
	}
	var refused *deadletter.Refused
	var moved *deadletter.Moved
	var off *NoConsole
	switch {
	case errors.As(err, &off):
		return Problem{Code: 409, What: off.Why, Try: off.Try}
	case errors.As(err, &moved):
		return Problem{Code: 409, What: moved.Error(), Try: "the same without the cursor"}
	case errors.As(err, &refused):
		return refusal(refused)
	case errors.Is(err, deadletter.ErrNotFound), errors.Is(err, dedupe.ErrNotFound):
		return Problem{Code: 404, What: err.Error()}
	case errors.Is(err, dedupe.ErrUnavailable):
		return Problem{Code: 503, What: err.Error(), Try: "tollgate status"}
	case errors.Is(err, errBad):
		return Problem{Code: 400, What: err.Error()}
	}
	return Problem{Code: 500, What: err.Error()}
}

// refusal words what was refused about a letter.
func refusal(r *deadletter.Refused) Problem {
	p := Problem{Code: 409, What: fmt.Sprintf("dead letter %s: %s", r.ID, r.Why), Try: r.Try}
	switch {
	case r.Denied:
		p.Code = 403
	case r.Invalid:
		p.Code = 422
	}
	return p
}

// errBad is wrapped by errors that are the asker's.
var errBad = errors.New("bad request")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errBad, fmt.Sprintf(format, args...))
}

// verb makes a handler of a function from query to answer.
func verb[Q, A any](s *Server, f func(ctx context.Context, q Q, by string) (A, error)) func(micro.Request) {
	return func(r micro.Request) {
		var q Q
		if err := decode(r.Data(), &q); err != nil {
			s.fail(r, problem(err))
			return
		}
		by := r.Headers().Get(HeaderBy)
		if by == "" {
			by = "unknown"
		}
		ctx, cancel := context.WithTimeout(s.base, 2*time.Minute)
		defer cancel()
		a, err := f(ctx, q, by)
		if err != nil {
			s.fail(r, problem(err))
			return
		}
		s.respond(r, a)
	}
}

// decode reads a query. No body is a query that asks for nothing in particular.
func decode(body []byte, q any) error {
	if len(body) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(q); err != nil {
		return bad("%v", err)
	}
	return nil
}
