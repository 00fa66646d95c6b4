package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tollgate/internal/app"
	"tollgate/internal/demo"
)

func (s *shell) devCommand() *cobra.Command {
	var at demo.Place
	var v serving
	c := &cobra.Command{Use: "dev", Short: "A server, a dispatcher and tools to play with, in one folder", Args: none,
		Long: "Starts an embedded NATS server, a dispatcher, and demo tools that fail on request: the argument \"mode\"\n" +
			"of demo.flaky, demo.pay and demo.wire is ok, flaky, down, throttled, busy, slow, lost or hang.\n" +
			"Everything is kept in one folder; removing it forgets everything.",
		Example: "  tollgate dev &\n  tollgate call demo.pay '{\"to\":\"alice\",\"amount_cents\":500,\"mode\":\"flaky\"}' --run r1 --key r1:1",
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("http") {
				at.HTTP = freeNear(at)
			}
			return s.dev(c.Context(), at, v)
		}}
	c.Flags().StringVar(&at.Dir, "dir", ".tollgate", "the folder")
	c.Flags().StringVar(&at.Listen, "listen", "127.0.0.1:4222", "where the NATS server listens; port 0 is a free one")
	c.Flags().StringVar(&at.HTTP, "http", demo.HTTP, "where the console and the metrics are; \"\" is nowhere. Left out: there, or on a free port when that is taken")
	c.Flags().BoolVar(&v.recover, "recover", false, "as tollgate serve --recover: go on although the ledger is damaged, missing or another one")
	c.Flags().BoolVarP(&v.verbose, "verbose", "v", false, "show the log here instead of writing it to a file")
	return c
}

// freeNear is the usual address of the console, or one on a free port when that is
// taken, as it is by a second dev on this machine, or when the server is to have one.
func freeNear(at demo.Place) string {
	const free = "127.0.0.1:0"
	if _, port, err := net.SplitHostPort(at.Listen); err == nil && port == "0" {
		return free
	}
	l, err := net.Listen("tcp", demo.HTTP)
	if err != nil {
		return free
	}
	_ = l.Close() // it was only asked for
	return demo.HTTP
}

// dev runs the demo tools around a dispatcher. They outlive it, so that calls which
// finish within the shutdown are answered.
func (s *shell) dev(ctx context.Context, at demo.Place, v serving) (err error) {
	dir := at.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	world, err := demo.Start(context.WithoutCancel(ctx), dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	cfg, err := demo.Config(at, world.URL())
	if err != nil {
		return err
	}
	o := app.Options{Config: cfg, Functions: demo.Functions(), Version: version(), Recover: v.recover, Log: s.logger(cfg, s.stderr)}
	if !v.verbose {
		file, err := os.OpenFile(filepath.Join(dir, "tollgate.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("open the log: %w", err)
		}
		defer file.Close()
		o.Log = s.logger(cfg, file)
	}
	v.command, v.urlFile = "dev", filepath.Join(dir, "url")
	v.started = func() error { return s.furnish(at, world.URL()) }
	return s.serve(ctx, v, o)
}

// furnish writes down what is served and says where things are. The folder may be
// another's until the dispatcher has started, so it comes after that.
func (s *shell) furnish(at demo.Place, tools string) error {
	path := filepath.Join(at.Dir, "demo.yaml")
	text, err := demo.YAML(at, tools)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	s.say("folder   %s: ledger.db, nats/, payments.jsonl, tollgate.log", at.Dir)
	s.say("config   %s: what is served here; tollgate config init writes one of your own", path)
	s.say("tools    %s: demo.echo demo.flaky demo.pay demo.wire demo.clock", tools)
	return nil
}
