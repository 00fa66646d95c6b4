package http

import (
	"bufio"
	"bytes"
	"io"
	nethttp "net/http"
	"net/url"
	"testing"
)

// Whatever bytes come back on the wire, they are judged; and nothing but a complete
// 2xx within the limit is a success.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"a\":1}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"HTTP/1.1 503 No\r\nRetry-After: 99999999999999999999\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 307 Go\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 204 None\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nuntil the end",
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n", "SSH-2.0\r\n\r\n", "",
	} {
		f.Add([]byte(s))
	}
	e, err := New(Spec{URL: "http://127.0.0.1:1/x", MaxResult: 1 << 10})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		read := func() (*nethttp.Response, error) {
			return nethttp.ReadResponse(bufio.NewReader(bytes.NewReader(wire)), &nethttp.Request{Method: "POST"})
		}
		resp, err := read()
		if err != nil {
			return
		}
		next, follow := redirectTarget(resp, e.url)
		if follow && (next.Host != e.url.Host || next.Scheme != e.url.Scheme || next.User != nil) {
			t.Errorf("a redirect leads to %v", next)
		}
		v := e.judge(t.Context(), resp)
		if v.Phase == 0 || !v.OK() && (v.Code == "" || v.Message == "") || v.RetryAfter < 0 {
			t.Errorf("incomplete verdict %+v", v)
		}
		again, _ := read()
		body, err := io.ReadAll(io.LimitReader(again.Body, 1<<20))
		if v.OK() && (err != nil || again.StatusCode/100 != 2 || len(body) > 1<<10) {
			t.Errorf("status %d, %d bytes, %v: a success", again.StatusCode, len(body), err)
		}
	})
}

// Arguments that go into the URL change nothing of it but the query, and no parameter
// that is there already.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{`{"q":"a&admin=1"}`, `{"token":"mine"}`, `{"n":9007199254740993,"b":true,"z":null}`, `{"#":"x","?":"y"}`, `{"a":[1]}`, `{"\ud800":"\u0000"}`, `{"q":"\r\nHost: x"}`, "[]", ""} {
		f.Add([]byte(s))
	}
	e, err := New(Spec{URL: "http://127.0.0.1:1/x?token=theirs", Method: nethttp.MethodGet})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, arguments []byte) {
		u, err := e.target(arguments)
		if err != nil {
			return
		}
		back, err := url.Parse(u.String())
		if err != nil || back.Host != e.url.Host || back.Path != e.url.Path || back.Fragment != "" {
			t.Fatalf("%s became %v (%v)", arguments, u, err)
		}
		if q := back.Query()["token"]; len(q) != 1 || q[0] != "theirs" {
			t.Errorf("%s: the token became %q", arguments, q)
		}
	})
}
