package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tollgate/console"
	"tollgate/control"
	"tollgate/internal/app"
	"tollgate/internal/config"
)

// serving are the flags of the commands that run a dispatcher.
type serving struct {
	verbose, recover bool
	urlFile          string
	command          string       // that a message names where it says serve; "" is serve
	started          func() error // runs once the store and the ledger are this process's
}

func (v *serving) flags(c *cobra.Command) {
	c.Flags().StringVar(&v.urlFile, "url-file", "", "write the server's address to this file once it serves")
	_ = c.Flags().MarkHidden("url-file")
}

func (s *shell) serveCommand() *cobra.Command {
	var v serving
	c := &cobra.Command{Use: "serve [FILE]", Short: "Run a dispatcher as the configuration says", Args: between(0, 1, "a file"),
		Long: "Runs until SIGTERM or SIGINT: then nothing new is taken, and running calls may finish within\n" +
			"limits.shutdown_grace. A second signal ends it at once, and the next start recovers what was running.",
		Example: "  tollgate config init && tollgate serve tollgate.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			path, err := configFile(c, args)
			if err != nil {
				return err
			}
			cfg, err := s.loadConfig(path)
			if err != nil {
				return err
			}
			if v.verbose {
				fmt.Fprintf(s.stderr, "%s\n", config.Effective(cfg))
			}
			return s.serve(c.Context(), v, app.Options{Config: cfg, Log: s.logger(cfg, s.stderr), Version: version(), Recover: v.recover})
		}}
	v.flags(c)
	f := c.Flags()
	configFlag(c)
	f.BoolVarP(&v.verbose, "verbose", "v", false, "show the configuration as it holds, secrets masked")
	f.BoolVar(&v.recover, "recover", false, "this ledger file is the true one from now on, though it is older, foreign or new: calls it does not know and that must not be repeated become unknown outcomes")
	return c
}

// serve runs a dispatcher until the context ends.
func (s *shell) serve(ctx context.Context, v serving, o app.Options) error {
	began := time.Now()
	a, err := app.Start(ctx, o)
	if err != nil {
		why := strings.ReplaceAll(err.Error(), "tollgate serve", "tollgate "+cmpOr(v.command, "serve"))
		return &fault{code: exitFailure, what: "the dispatcher did not start", why: why, try: roomFor(err), cause: err}
	}
	if v.started != nil {
		if err := v.started(); err != nil {
			a.Stop()
			return errors.Join(err, a.Wait())
		}
	}
	s.say("server   %s", a.ClientURL())
	if url := a.HTTPURL(); url != "" {
		s.say("metrics  %s/metrics, and /livez, /readyz", url)
		if v.command == "dev" {
			s.say("console  %s (signs one browser in, once)", a.ConsoleLink(console.User{Name: operator(), Role: control.Admin}))
		} else if s.errTTY {
			s.say("console  tollgate console signs a browser in")
		}
	}
	s.say("ready in %s, serving %s", brief(time.Since(began)), count(len(o.Config.Tools), "tool"))
	if err := announce(v.urlFile, a.ClientURL()); err != nil {
		o.Log.Error().Err(err).Msg("the address was not written")
	}
	defer retract(v.urlFile, a.ClientURL())
	if err := a.Wait(); err != nil {
		return &fault{code: exitFailure, what: "the dispatcher stopped", why: err.Error(), cause: err}
	}
	s.say("stopped in order")
	return nil
}

// roomFor says what to do when the server would not reserve what the streams may grow to.
func roomFor(err error) string {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != 10047 {
		return ""
	}
	return "the streams may grow to 6 GiB in all, and the server reserves that: make room on the disk of its store, " +
		"or set nats.embedded.max_store to 6GiB or more to promise it (a server of your own: max_file_store)"
}

// announce writes the address where a script waits for it: whole or not at all.
func announce(path, url string) error {
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path+".new", []byte(url+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", filepath.Clean(path))
}

// retract removes the address, unless somebody has put another in its place.
func retract(path, url string) {
	if text, err := os.ReadFile(path); err == nil && string(text) == url+"\n" {
		_ = os.Remove(path)
	}
}

// logger is the log as configured: for people on a terminal, JSON elsewhere.
func (s *shell) logger(c *config.Config, to io.Writer) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.Log.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	if c.Log.Format == "console" || c.Log.Format == "auto" && to == s.stderr && s.errTTY {
		to = zerolog.ConsoleWriter{Out: to, TimeFormat: "15:04:05.000", NoColor: s.env("NO_COLOR") != "" || s.color == "never"}
	}
	return zerolog.New(to).Level(level).With().Timestamp().Logger()
}
