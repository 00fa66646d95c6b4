package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"tollgate/schemas"
)

// shell is one command line being carried out: its streams, what the global flags
// say, and the connection once a command has asked for it.
type shell struct {
	stdin                  io.Reader
	stdout, stderr         io.Writer
	inTTY, outTTY, errTTY  bool
	env                    func(string) string
	now                    func() time.Time
	started                bool // the command line was understood; errors before are usage errors
	json, quiet, noInput   bool
	utc                    bool
	color                  string
	server, prefix, tenant string
	access                 access
	timeout                time.Duration

	dialing  sync.Mutex // guards nc
	nc       *nats.Conn
	subjects schemas.Subjects
}

// access is how a server lets us in.
type access struct{ creds, nkey, user, ca, cert, key string }

func (s *shell) globalFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVarP(&s.server, "server", "s", "", "NATS server (default $TOLLGATE_NATS_URL, $NATS_URL or "+nats.DefaultURL+")")
	f.StringVar(&s.access.creds, "creds", s.env("TOLLGATE_NATS_CREDS"), "NATS credentials file (or $TOLLGATE_NATS_CREDS)")
	f.StringVar(&s.access.nkey, "nkey", s.env("TOLLGATE_NATS_NKEY"), "NATS nkey seed file (or $TOLLGATE_NATS_NKEY)")
	f.StringVar(&s.access.user, "user", s.env("TOLLGATE_NATS_USER"), "NATS user (or $TOLLGATE_NATS_USER); the password is $TOLLGATE_NATS_PASSWORD")
	f.StringVar(&s.access.ca, "tlsca", "", "certificates to trust")
	f.StringVar(&s.access.cert, "tlscert", "", "our TLS certificate")
	f.StringVar(&s.access.key, "tlskey", "", "its private key")
	f.StringVar(&s.prefix, "prefix", "tollgate", "first part of every subject")
	f.StringVar(&s.tenant, "tenant", "", "tenant (default \"default\"; lists: every tenant)")
	f.DurationVar(&s.timeout, "timeout", 10*time.Second, "how long to wait for the server or the dispatcher")
	f.BoolVar(&s.json, "json", false, "answer with one JSON object")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "no hints, summaries or progress")
	f.BoolVar(&s.noInput, "no-input", false, "never ask; what would have to be confirmed is refused")
	f.BoolVar(&s.utc, "utc", false, "times in UTC")
	f.StringVar(&s.color, "color", "auto", "auto, always or never")
	complete(c, "color", "auto", "always", "never")
}

// start runs before every command. From its end on, errors are no longer about the
// command line; what cobra would check later is checked here.
func (s *shell) start(c *cobra.Command, _ []string) error {
	if err := errors.Join(c.ValidateRequiredFlags(), c.ValidateFlagGroups()); err != nil {
		return usage(err.Error(), c.CommandPath()+" --help")
	}
	s.started = true
	if !slices.Contains([]string{"auto", "always", "never"}, s.color) {
		return usage("--color "+quoted(s.color)+" is none of auto, always, never", c.CommandPath()+" --help")
	}
	if s.timeout <= 0 {
		return usage("--timeout must be more than nothing", "--timeout 10s")
	}
	if s.tenant != "" && !schemas.ValidTenant(s.tenant) {
		return usage("--tenant "+quoted(s.tenant)+" is not a tenant's name", "lower-case letters, digits, _ and -, 32 at most")
	}
	subjects, err := schemas.NewSubjects(s.prefix)
	if err != nil {
		return usage(err.Error(), "--prefix tollgate")
	}
	s.subjects = subjects
	return nil
}

// tenantOrDefault is the tenant of something that has exactly one.
func (s *shell) tenantOrDefault() string {
	if s.tenant == "" {
		return "default"
	}
	return s.tenant
}

// say writes a line beside the answer: a summary, a hint. Scripts do not read it.
func (s *shell) say(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(s.stderr, format+"\n", args...)
	}
}

// next suggests what one would type now.
func (s *shell) next(commands ...string) {
	if s.json {
		return
	}
	line := ""
	for i, c := range commands {
		if i > 0 {
			line += " · "
		}
		line += c
	}
	s.say("next: %s", line)
}

func (s *shell) close() {
	if s.nc != nil {
		s.nc.Close()
	}
}
