package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tollgate/consumer"
	"tollgate/control"
	"tollgate/deadletter"
	"tollgate/dispatcher"
	"tollgate/dispatcher/classify"
	"tollgate/internal/config"
	"tollgate/internal/embedded"
	"tollgate/internal/history"
	"tollgate/internal/verify"
	"tollgate/replays"
	"tollgate/schemas"
	toolnats "tollgate/tools/nats"
)

// assemble makes every part, in the order in which each needs the ones before.
func (a *App) assemble(ctx context.Context) error {
	c := a.opts.Config
	var err error
	if a.subjects, err = schemas.NewSubjects(c.NATS.Prefix); err != nil {
		return err
	}
	a.names = consumer.StreamNames(a.subjects)
	if err := a.openHTTP(); err != nil {
		return err
	}
	if err := a.connect(); err != nil {
		return err
	}
	if a.js, err = jetstream.New(a.nc); err != nil {
		return err
	}
	if err := a.buildCatalogue(); err != nil {
		return err
	}
	a.newMetrics()
	a.history = history.New(time.Now())
	if err := a.openConsole(); err != nil {
		return err
	}
	if err := a.openLedger(ctx); err != nil {
		return err
	}
	store := deadletter.NewStore(a.js, a.subjects, a.names.Letters)
	if a.outbox, err = consumer.NewOutbox(a.js, a.subjects, a.ledger, store, a.opts.Log); err != nil {
		return err
	}
	a.consumer = consumer.New(consumer.Config{
		NATS: a.nc, JetStream: a.js, Subjects: a.subjects, Tools: a.tools, Ledger: a.ledger, Outbox: a.outbox, Log: a.opts.Log,
		Limits: a.limits(), ShutdownGrace: c.Limits.ShutdownGrace.D(),
		UnservedGrace: c.Limits.UnservedGrace.D(), SweepEvery: a.opts.Sweep,
	})
	a.disp = dispatcher.New(dispatcher.Config{
		Catalogue: a.catalogue, Ledger: a.ledger, Publisher: a.outbox, Requests: a.consumer, Pauses: pauses{a.ledger}, Observer: observers{a.metrics, a.history}, Term: a.term.Valid,
		Log: a.opts.Log, MaxBody: int(c.Limits.MaxBody), Skew: c.Limits.Skew.D(), Grace: c.Limits.Grace.D(), Queue: c.Limits.EndpointQueue,
	})
	a.consumer.Serve(a.disp)
	a.letters = &deadletter.Operations{Store: store, Index: deadletter.NewIndex(store, a.ledger), Ledger: a.ledger, Publisher: a.disp, Served: func(tool string) bool {
		_, ok := a.catalogue.Tool(tool)
		return ok
	}, Editing: deadletter.Editing{Allowed: c.DeadLetters.AllowEdit, Catalogue: a.catalogue, MaxBody: int(c.Limits.MaxBody)}}
	a.letters.Index.File = c.Path(c.Ledger.Path) + ".letters"
	a.replays = replays.New(replays.Config{Ledger: a.ledger, Letters: a.letters, List: a.listLetters, Publish: a.outbox.Audit, Keep: c.Ledger.Retention.D(), Log: a.opts.Log})
	return nil
}

// keepPublished is how long the ledger keeps a published result owed. Of the
// embedded server we know when its asynchronous writes are on the disk: three times
// that is safe. An external one is asked to store results before it answers.
func (a *App) keepPublished() time.Duration {
	own := a.opts.Config.NATS.Embedded
	if own == nil {
		return 0
	}
	return 3 * max(embedded.FlushInterval, own.Sync.Every)
}

func (a *App) limits() consumer.Limits {
	return consumer.Limits{Results: a.opts.Config.Ledger.Retention.D(), AckWait: a.opts.AckWait, AsyncResults: a.keepPublished() > 0}
}

// connect starts the embedded server, if there is one, and connects.
func (a *App) connect() error {
	n := a.opts.Config.NATS
	var err error
	if n.Embedded != nil && a.opts.Conn == nil {
		a.server, err = embedded.Start(embedded.Options{StoreDir: a.opts.Config.Path(n.Embedded.StoreDir), Listen: n.Embedded.Listen, SyncInterval: n.Embedded.Sync.Every,
			MaxStore: int64(n.Embedded.MaxStore), User: n.User, Password: n.Password.Reveal(), Token: n.Token.Reveal(), Logger: a.opts.Log.With().Str("part", "nats-server").Logger()})
		if err != nil {
			return err
		}
	}
	a.nc, err = a.dial()
	return err
}

// dial makes one more connection to the server.
func (a *App) dial(extra ...nats.Option) (*nats.Conn, error) {
	opts := append(a.connOptions(), extra...)
	switch {
	case a.opts.Conn != nil:
		return a.opts.Conn()
	case a.server != nil:
		return a.server.Conn(opts...)
	}
	url := a.opts.Config.NATS.URL
	nc, err := nats.Connect(url, append(opts, external(a.opts.Config)...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", url, err)
	}
	return nc, nil
}

// toolConn is the connection of tools that are NATS services. It keeps nothing for
// later while the server is away: a request that goes out late runs after its attempt
// was given up.
func (a *App) toolConn() (*nats.Conn, error) {
	var err error
	if a.tnc == nil {
		a.tnc, err = a.dial(nats.ReconnectBufSize(-1))
	}
	return a.tnc, err
}

func (a *App) connOptions() []nats.Option {
	log := a.opts.Log
	return []nats.Option{
		nats.Name("tollgate dispatcher"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { log.Warn().Err(err).Msg("NATS connection lost; reconnecting") }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info().Msg("NATS connection is back") }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn().Err(err).Msg("NATS") }),
	}
}

func external(c *config.Config) []nats.Option {
	n := c.NATS
	var o []nats.Option
	if n.Creds != "" {
		o = append(o, nats.UserCredentials(c.Path(n.Creds)))
	}
	if n.NKey != "" {
		if opt, err := nats.NkeyOptionFromSeed(c.Path(n.NKey)); err == nil {
			o = append(o, opt)
		} else {
			o = append(o, func(*nats.Options) error { return fmt.Errorf("nkey %s: %w", n.NKey, err) })
		}
	}
	if n.User != "" {
		o = append(o, nats.UserInfo(n.User, n.Password.Reveal()))
	}
	if n.Token.Set() {
		o = append(o, nats.Token(n.Token.Reveal()))
	}
	if t := n.TLS; t != nil {
		if t.CA != "" {
			o = append(o, nats.RootCAs(c.Path(t.CA)))
		}
		if t.Cert != "" {
			o = append(o, nats.ClientCert(c.Path(t.Cert), c.Path(t.Key)))
		}
	}
	return o
}

// buildCatalogue makes the tools.
func (a *App) buildCatalogue() error {
	cat, err := a.opts.Config.Build(config.BuildDeps{Functions: a.opts.Functions,
		NATS: func(subject string, rules classify.Rules, maxResult int64) (dispatcher.Executor, error) {
			nc, err := a.toolConn()
			if err != nil {
				return nil, err
			}
			return toolnats.New(toolnats.Spec{Conn: nc, Subject: subject, Rules: rules, MaxResult: maxResult})
		}})
	if err != nil {
		return err
	}
	a.catalogue = cat
	for _, name := range cat.Names() {
		t, _ := cat.Tool(name)
		a.tools = append(a.tools, t)
	}
	return nil
}

func (a *App) listLetters(ctx context.Context, f deadletter.Filter) (deadletter.Page, error) {
	return a.letters.Index.List(ctx, f)
}

// serveControl answers the micro services.
func (a *App) serveControl(ctx, work context.Context) error {
	documents := map[string]json.RawMessage{}
	for name, t := range a.opts.Config.Tools {
		if t.Schema != nil {
			documents[name] = t.Schema.Document
		}
	}
	n := a.names
	return control.Serve(ctx, work, control.Config{
		NATS: a.nc, JetStream: a.js, Subjects: a.subjects, Streams: []string{n.Calls, n.Jobs, n.Retry, n.Results, n.Letters, n.Audit}, Retry: n.Retry, Audit: n.Audit,
		Lanes:      map[schemas.Lane]string{schemas.Calls: n.Calls, schemas.Jobs: n.Jobs},
		Dispatcher: a.disp, Requests: a.consumer, Ledger: a.ledger, Letters: a.letters, Replays: a.replays, Tools: a.tools, Schemas: documents, Publish: a.outbox.Audit,
		Verify: func(ctx context.Context) (control.VerifyReport, error) {
			return verify.Run(ctx, verify.Sources{Ledger: a.ledger, JetStream: a.js, Subjects: a.subjects, Names: n})
		},
		Backup: a.backup, Ledgers: a.ledgerStatus, Owner: a.term.Valid, History: a.history.Read, Missing: a.Missing, Link: a.linkTo, Settings: a.settings, Version: a.opts.Version, Log: a.opts.Log,
		Replies: a.opts.Config.Control.ReplyPrefixes, Serving: func() { close(a.answering) },
	})
}

// backup writes a consistent copy of the ledger to a new file.
func (a *App) backup(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := a.ledger.Backup(f)
	return n, errors.Join(err, f.Sync(), f.Close())
}

func (a *App) ledgerStatus() control.LedgerStatus {
	s := a.ledger.Stats()
	out := control.LedgerStatus{ID: a.ledger.ID(), Epoch: a.ledger.Epoch(), Path: a.opts.Config.Path(a.opts.Config.Ledger.Path), Bytes: s.FileBytes, Live: s.Live,
		Terminal: s.Terminal, Runs: s.Runs, Commits: s.Commits, Failed: s.FailedCommits, CommitUS: s.LastCommit.Microseconds(), Sync: a.opts.Config.Ledger.Sync.String()}
	if err := errors.Join(s.CommitError, s.SyncError, s.SweepError); err != nil {
		out.Error = err.Error()
	}
	return out
}

func makeParent(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the ledger's directory: %w", err)
	}
	return nil
}
