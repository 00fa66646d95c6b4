package http_test

import (
	"io"
	nethttp "net/http"
	"sync/atomic"
	"testing"

	httptool "tollgate/tools/http"
)

// B84: a redirect is an answer, unless following was asked for and it stays home.
func TestB84Redirects(t *testing.T) {
	var seen, elsewhere atomic.Int32
	other := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { elsewhere.Add(1) })
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		seen.Add(1)
		switch r.URL.Path {
		case "/302":
			nethttp.Redirect(w, r, "/end", nethttp.StatusFound)
		case "/307":
			nethttp.Redirect(w, r, "/end", nethttp.StatusTemporaryRedirect)
		case "/308":
			nethttp.Redirect(w, r, "/end", nethttp.StatusPermanentRedirect)
		case "/away":
			nethttp.Redirect(w, r, other.URL, nethttp.StatusTemporaryRedirect)
		case "/loop":
			nethttp.Redirect(w, r, "/loop", nethttp.StatusTemporaryRedirect)
		case "/end":
			body, _ := io.ReadAll(r.Body)
			io.WriteString(w, r.Method+" "+r.Header.Get("Idempotency-Key")+" "+string(body))
		}
	})
	const refused = "permanent answered REDIRECT"
	tests := []struct {
		path   string
		follow bool
		want   string
		seen   int32
	}{
		{"/302", false, refused, 1}, {"/307", false, refused, 1}, {"/away", false, refused, 1},
		{"/302", true, refused, 1}, {"/307", true, "ok answered", 2}, {"/308", true, "ok answered", 2},
		{"/away", true, refused, 1}, {"/loop", true, refused, 11},
	}
	for _, tt := range tests {
		seen.Store(0)
		e := executor(t, httptool.Spec{URL: s.URL + tt.path, FollowRedirects: tt.follow, Header: map[string]string{"Authorization": "Bearer x"}})
		v := e.Execute(t.Context(), attempt)
		if short(v) != tt.want || seen.Load() != tt.seen {
			t.Errorf("%s follow=%v: %s after %d requests, want %s after %d", tt.path, tt.follow, short(v), seen.Load(), tt.want, tt.seen)
		}
		if v.OK() && v.Content[0].Text != "POST k1 "+string(attempt.Arguments) {
			t.Errorf("%s: the followed request was %q", tt.path, v.Content[0].Text)
		}
	}
	if elsewhere.Load() != 0 {
		t.Errorf("another host saw %d requests", elsewhere.Load())
	}
}
