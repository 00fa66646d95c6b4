package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"tollgate/control"
	"tollgate/internal/config"
)

// The exit codes. They are part of the contract with scripts: see exitCodesTopic.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitPartial     = 4
	exitUnconfirmed = 5
	exitUnreachable = 6
	exitConflict    = 7
	exitDenied      = 8
	exitToolError   = 9
	exitBudget      = 10
	exitDeadline    = 11
	exitInterrupted = 130
)

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: `Exit codes

    0  it worked
    1  it failed
    2  the command line, the configuration or a filter is wrong
    3  not found, or nothing matched
    4  some of it worked (a bulk operation with failures, a replay that died again)
    5  not confirmed, or there is nobody to ask (see --yes)
    6  the server or the dispatcher does not answer in time
    7  too late: somebody else was first, or the state does not allow it any more
    8  not permitted
    9  call: the tool's answer is an error, or the call failed, was refused or is uncertain
   10  call: the budget of the run, or the attempts of the call, are used up
   11  call: out of time
  130  interrupted`}
}

// fault is an error as it is shown: what happened, why, and what to try. An empty
// what is an error that has been told already.
type fault struct {
	code           int
	what, why, try string
	cause          error
}

func (f *fault) Error() string { return f.what }
func (f *fault) Unwrap() error { return f.cause }

func usage(what, try string) *fault { return &fault{code: exitUsage, what: what, try: try} }

// told ends a command with an exit code when everything has been said.
func told(code int) *fault { return &fault{code: code} }

func quoted(text string) string { return strconv.Quote(text) }

// explain finds the words and the exit code for an error.
func (s *shell) explain(ctx context.Context, err error) *fault {
	var f *fault
	var refused *control.Failure
	var broken *config.Error
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted) && !errors.As(err, &f):
		return &fault{code: exitInterrupted, what: "interrupted"}
	case errors.As(err, &f):
		return f
	case errors.As(err, &refused):
		return &fault{code: failureCode(refused.Code), what: refused.What, try: refused.Try}
	case errors.As(err, &broken):
		return &fault{code: exitUsage, what: fmt.Sprintf("the configuration has %s", count(len(broken.Problems), "problem")), why: broken.Error(),
			try: "tollgate config schema describes every key"}
	case !s.started:
		what, try, _ := strings.Cut(err.Error(), "\n")
		return usage(what, cmpOr(suggestion(try), "tollgate --help"))
	}
	return s.explainNetwork(err)
}

func (s *shell) explainNetwork(err error) *fault {
	switch {
	case errors.Is(err, control.ErrNoDispatcher), errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrStreamNotFound):
		return &fault{code: exitUnreachable, what: "no dispatcher answers on " + s.serverName(),
			why: "the server is there, but nobody serves the subjects below " + quoted(s.subjects.Prefix), try: "tollgate serve -c tollgate.yaml, or another --server or --prefix"}
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, nats.ErrAuthExpired):
		return &fault{code: exitDenied, what: "the server does not permit this", why: err.Error(), try: "--creds, --nkey or --user with an operator's rights"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return &fault{code: exitUnreachable, what: fmt.Sprintf("no answer within %s", s.timeout), why: err.Error(), try: "a longer --timeout; tollgate status"}
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrConnectionClosed), isNetwork(err):
		return &fault{code: exitUnreachable, what: "cannot reach the NATS server " + s.serverName(), why: err.Error(), try: "tollgate dev starts one; --server or $TOLLGATE_NATS_URL names another"}
	}
	return &fault{code: exitFailure, what: err.Error()}
}

// isNetwork reports whether a server could not be reached. A file's error is none, though a
// system's error number looks like a net.Error; nor is a port of ours that is taken.
func isNetwork(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op != "listen"
}

// failureCode maps the code of a failed answer to an exit code.
func failureCode(code int) int {
	switch code {
	case 400, 422:
		return exitUsage
	case 401, 403:
		return exitDenied
	case 404:
		return exitNotFound
	case 409:
		return exitConflict
	case 503, 504:
		return exitUnreachable
	}
	return exitFailure
}

// suggestion reads cobra's "Did you mean this?" block.
func suggestion(text string) string {
	if _, after, ok := strings.Cut(text, "Did you mean this?"); ok {
		return "tollgate " + strings.Join(strings.Fields(after), ", tollgate ")
	}
	return ""
}

func (s *shell) printFault(f *fault) {
	if f.what == "" {
		return
	}
	if s.json {
		body, _ := json.Marshal(struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Exit       int    `json:"exit"`
			Error      string `json:"error"`
			Why        string `json:"why,omitempty"`
			Try        string `json:"try,omitempty"`
		}{apiVersion, "Error", f.code, f.what, f.why, f.try})
		fmt.Fprintf(s.stderr, "%s\n", body)
		return
	}
	for _, line := range []struct{ label, text string }{{"error", f.what}, {"why", f.why}, {"try", f.try}} {
		if line.text != "" {
			fmt.Fprintf(s.stderr, "%s: %s\n", line.label, safe(line.text))
		}
	}
}
