package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"tollgate/internal/app"
	"tollgate/internal/demo"
)

func (s *shell) devCommand() *cobra.Command {
	var dir, listen string
	var v serving
	c := &cobra.Command{Use: "dev", Short: "A server, a dispatcher and tools to play with, in one folder", Args: none,
		Long: "Starts an embedded NATS server, a dispatcher, and demo tools that fail on request: the argument \"mode\"\n" +
			"of demo.flaky, demo.pay and demo.wire is ok, flaky, down, throttled, busy, slow, lost or hang.\n" +
			"Everything is kept in one folder; removing it forgets everything.",
		Example: "  tollgate dev &\n  tollgate call demo.pay '{\"to\":\"alice\",\"amount_cents\":500,\"mode\":\"flaky\"}' --run r1 --key r1:1",
		RunE:    func(c *cobra.Command, _ []string) error { return s.dev(c.Context(), dir, listen, v) }}
	c.Flags().StringVar(&dir, "dir", ".tollgate", "the folder")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:4222", "where the NATS server listens; port 0 is a free one")
	c.Flags().BoolVar(&v.recover, "recover", false, "as tollgate serve --recover: go on although the ledger is damaged, missing or another one")
	c.Flags().BoolVarP(&v.verbose, "verbose", "v", false, "show the log here instead of writing it to a file")
	return c
}

// dev runs the demo tools around a dispatcher. They outlive it, so that calls which
// finish within the shutdown are answered.
func (s *shell) dev(ctx context.Context, dir, listen string, v serving) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	world, err := demo.Start(context.WithoutCancel(ctx), dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	cfg, err := demo.Config(dir, listen, world.URL())
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
	v.started = func() error { return s.furnish(dir, listen, world.URL()) }
	return s.serve(ctx, v, o)
}

// furnish writes down what is served and says where things are. The folder may be
// another's until the dispatcher has started, so it comes after that.
func (s *shell) furnish(dir, listen, tools string) error {
	path := filepath.Join(dir, "demo.yaml")
	text, err := demo.YAML(listen, tools)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	s.say("folder   %s: ledger.db, nats/, payments.jsonl, tollgate.log", dir)
	s.say("config   %s: what is served here; tollgate config init writes one of your own", path)
	s.say("tools    %s: demo.echo demo.flaky demo.pay demo.wire demo.clock", tools)
	return nil
}
