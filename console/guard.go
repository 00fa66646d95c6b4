package console

import "net/http"

// policy lets a page use this console's own style and script and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// mostForm bounds a form: edited arguments are the largest part of one.
const mostForm = 8 << 20

// guard keeps other sites from sending forms here, from framing a page, and from
// learning where somebody came from; and keeps what is shown out of every cache.
func guard(h http.Handler) http.Handler {
	csrf := http.NewCrossOriginProtection()
	return csrf.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-store")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		h.ServeHTTP(w, r)
	}))
}
