package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"

	"github.com/nats-io/nats.go"

	"tollgate/control"
)

func (s *shell) serverName() string {
	return cmpOr(s.server, s.env("TOLLGATE_NATS_URL"), s.env("NATS_URL"), nats.DefaultURL)
}

// connect opens the connection the first time a command needs it.
func (s *shell) connect() (*nats.Conn, error) {
	s.dialing.Lock() // a bulk operation asks from several goroutines
	defer s.dialing.Unlock()
	if s.nc != nil {
		return s.nc, nil
	}
	opts := []nats.Option{nats.Name("tollgate command line"), nats.Timeout(s.timeout), nats.NoReconnect()}
	a := s.access
	switch {
	case a.creds != "":
		opts = append(opts, nats.UserCredentials(a.creds))
	case a.nkey != "":
		o, err := nats.NkeyOptionFromSeed(a.nkey)
		if err != nil {
			return nil, usage(fmt.Sprintf("--nkey: %v", err), "the path of a file that holds the seed")
		}
		opts = append(opts, o)
	case a.user != "":
		opts = append(opts, nats.UserInfo(a.user, s.env("TOLLGATE_NATS_PASSWORD")))
	case s.env("TOLLGATE_NATS_TOKEN") != "":
		opts = append(opts, nats.Token(s.env("TOLLGATE_NATS_TOKEN")))
	}
	if a.ca != "" {
		opts = append(opts, nats.RootCAs(a.ca))
	}
	if a.cert != "" {
		opts = append(opts, nats.ClientCert(a.cert, a.key))
	}
	nc, err := nats.Connect(s.serverName(), opts...)
	if err != nil {
		f := s.explainNetwork(err)
		if f.code == exitFailure { // whatever it is, it is between us and the server
			f = &fault{code: exitUnreachable, what: "cannot connect to the NATS server " + s.serverName(), why: err.Error(), try: "tollgate dev starts one; --server or $TOLLGATE_NATS_URL names another"}
		}
		return nil, f
	}
	s.nc = nc
	return nc, nil
}

// control returns the client the operators' verbs go through.
func (s *shell) control() (*control.Client, error) {
	nc, err := s.connect()
	if err != nil {
		return nil, err
	}
	return &control.Client{NATS: nc, Subjects: s.subjects, By: operator()}, nil
}

// operator is who the audit says it was.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// ask sends one verb and reads its answer, within --timeout.
func ask[T any](ctx context.Context, s *shell, verb string, query any) (T, error) {
	var out T
	c, err := s.control()
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = c.Ask(ctx, verb, query, &out)
	return out, err
}
