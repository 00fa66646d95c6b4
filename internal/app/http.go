package app

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tollgate/console"
	"tollgate/control"
	"tollgate/internal/config"
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
	if u, urlErr := url.Parse(c.PublicURL); err == nil && urlErr == nil {
		a.http.Answer(u.Host)
	}
	return err
}

// openConsole makes the operators' pages. Beyond this machine they are for those only
// who prove who they are, whoever else may read the metrics there.
func (a *App) openConsole() (err error) {
	c := console.Config{NATS: a.nc, Subjects: a.subjects, Version: a.opts.Version, Log: a.opts.Log}
	if h := a.opts.Config.HTTP; h != nil {
		c.PublicURL, c.Users = strings.TrimSuffix(h.PublicURL, "/"), users(h)
		if !web.Local(h.Listen) && len(h.Users) == 0 {
			c.Off = "the console is off: other machines reach this listener, and no user may sign in"
		}
	}
	a.console, err = console.New(c)
	return err
}

// users are who may sign in with a token.
func users(h *config.Listener) []console.User {
	var list []console.User
	for _, name := range slices.Sorted(maps.Keys(h.Users)) {
		u := h.Users[name]
		list = append(list, console.User{Name: name, Role: control.Role(u.Role), SHA256: u.Digest()})
	}
	return list
}

// ConsoleLink is an address that signs one browser in once; "" where there is no console.
func (a *App) ConsoleLink(u console.User) string {
	if a.http == nil || a.console.Off() != "" {
		return ""
	}
	return cmp.Or(strings.TrimSuffix(a.opts.Config.HTTP.PublicURL, "/"), a.http.URL()) + a.console.Link(u)
}

// linkTo makes such a link for somebody who asked the control service.
func (a *App) linkTo(name string, role control.Role) (string, error) {
	switch {
	case a.http == nil:
		return "", &control.NoConsole{Why: "the dispatcher has no listener for operators, so there is no console", Try: "http: {} in its configuration, and a restart; tollgate dev has one by itself"}
	case a.console.Off() != "":
		return "", &control.NoConsole{Why: a.console.Off(), Try: console.TurnOn}
	}
	return a.ConsoleLink(console.User{Name: name, Role: role}), nil
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
