// Package web is the one HTTP listener for operators: where it may listen, whom it
// answers, and how it stops. What it serves is handed to it as a handler.
//
// It knows nothing of Tollgate. It proves nobody's identity: what is served beyond
// this machine has to do that itself.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"
)

// Bounds of one request. A scrape reads all parts, which may take some seconds.
const (
	headerWithin = 5 * time.Second
	readWithin   = 30 * time.Second
	idleWithin   = 2 * time.Minute
	stopWithin   = 2 * time.Second
	maxHeader    = 32 << 10
)

// Listener is an open listener that serves nothing yet.
type Listener struct {
	net   net.Listener
	log   zerolog.Logger
	local bool
	also  string // a host name that a proxy in front is asked for
}

// Check says why a listener must not be opened there, or nil.
func Check(address string, exposed bool) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return errors.New("is not host:port, such as 127.0.0.1:9464")
	case host == "":
		return errors.New("names no host, which would be every address of this machine: write 127.0.0.1 in front of the port")
	case !loopback(host) && !exposed:
		return fmt.Errorf("%s is reachable from other machines, and nobody has to prove who they are: listen on 127.0.0.1, or set expose: true if a firewall or proxy decides who gets there", host)
	}
	return nil
}

// Local reports whether an address is reachable from its own machine only.
func Local(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopback(host)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen opens the listener, so that a port which is taken ends the start.
func Listen(address string, exposed bool, log zerolog.Logger) (*Listener, error) {
	if err := Check(address, exposed); err != nil {
		return nil, fmt.Errorf("http.listen %q %w", address, err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for operators: %w; set http.listen to a free port, or leave http out", err)
	}
	return &Listener{net: l, log: log, local: Local(address)}, nil
}

// URL is where it listens.
func (l *Listener) URL() string { return "http://" + l.net.Addr().String() }

// Answer lets requests through that are for another host: a proxy in front hands them on.
func (l *Listener) Answer(host string) { l.also = host }

// Close closes a listener that was never served.
func (l *Listener) Close() error { return l.net.Close() }

// Serve serves h until ctx ends.
func (l *Listener) Serve(ctx context.Context, h http.Handler) error {
	s := &http.Server{Handler: l.guard(h), ReadHeaderTimeout: headerWithin, ReadTimeout: readWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHeader}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Serve(l.net) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := s.Shutdown(stop); err != nil {
		l.log.Debug().Err(err).Msg("operators' requests were cut off by the stop")
		s.Close()
	}
	<-stopped
	return nil
}

// guard answers only who means this listener: a page of another site that a browser on
// this machine shows can send requests here under a name that its owner has pointed at
// 127.0.0.1. And nothing that is answered may be kept or taken for anything else.
func (l *Listener) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cache-Control", "no-store")
		if l.local && !loopback(hostOf(r.Host)) && (l.also == "" || r.Host != l.also) {
			http.Error(w, "this listener is for its own machine and answers only to localhost and 127.0.0.1, or to what public_url names", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}

// Health answers whether the process serves at all.
func Health(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

// Ready answers 200 while nothing is missing, and else 503 and what is, a line each.
func Ready(missing func() []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		lines := slices.Clone(missing())
		if len(lines) == 0 {
			fmt.Fprintln(w, "ready")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, line := range lines {
			fmt.Fprintln(w, line)
		}
	}
}
