package console

import (
	"net"
	"net/http"
	"net/url"
)

// policy lets a page use this console's own style and script and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// mostForm bounds a form: edited arguments are the largest part of one.
const mostForm = 8 << 20

// guard keeps other sites from sending forms here, from framing a page, and from
// learning where somebody came from; and keeps what is shown out of every cache. The
// headers come first, so that a refusal has them too.
func (c *Console) guard(h http.Handler) http.Handler {
	public := ""
	if u, err := url.Parse(c.cfg.PublicURL); err == nil {
		public = u.Host
	}
	h = http.NewCrossOriginProtection().Handler(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-store")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		if public != "" && r.Host != public && !ownMachine(r.Host) {
			http.Error(w, "this console answers at "+c.cfg.PublicURL+" and under no other name", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		h.ServeHTTP(w, r)
	})
}

// ownMachine reports whether a request names the machine it was sent on.
func ownMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
