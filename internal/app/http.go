package app

import (
	"context"
	"net/http"
	"slices"

	"tollgate/console"
	"tollgate/internal/metrics"
	"tollgate/internal/web"
)

// openHTTP opens the operators' listener, if there is to be one.
func (a *App) openHTTP() error {
	c := a.opts.Config.HTTP
	if c == nil {
		return nil
	}
	var err error
	a.http, err = web.Listen(c.Listen, c.Expose, a.opts.Log)
	return err
}

// openConsole makes the operators' pages.
func (a *App) openConsole() (err error) {
	a.console, err = console.New(console.Config{NATS: a.nc, Subjects: a.subjects, Version: a.opts.Version, Log: a.opts.Log})
	return err
}

// ConsoleLink is an address that signs one browser in once; "" without a listener.
func (a *App) ConsoleLink(u console.User) string {
	if a.http == nil {
		return ""
	}
	return a.http.URL() + a.console.Link(u)
}

// serveHTTP serves operators until ctx ends.
func (a *App) serveHTTP(ctx context.Context) error { return a.http.Serve(ctx, a.Handler()) }

// Handler is everything the operators' listener serves.
func (a *App) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", web.Health)
	mux.HandleFunc("GET /readyz", web.Ready(a.Missing))
	mux.Handle("GET /metrics", a.metrics.Handler())
	mux.Handle("/", a.console.Handler())
	return mux
}

// HTTPURL is where the operators' listener is; "" without one.
func (a *App) HTTPURL() string {
	if a.http == nil {
		return ""
	}
	return a.http.URL()
}

// newMetrics makes the metrics, which count from then on and are read by nobody
// without a listener.
func (a *App) newMetrics() {
	c := metrics.Config{Version: a.opts.Version, Read: a.readState}
	for _, t := range a.tools {
		c.Tools = append(c.Tools, t.Name)
	}
	c.Dependencies = a.dependencies()
	a.metrics = metrics.New(c)
}

// dependencies names what the tools stand on.
func (a *App) dependencies() []string {
	var names []string
	for _, t := range a.tools {
		names = append(names, t.Dependency)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
