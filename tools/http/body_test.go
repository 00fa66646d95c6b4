package http_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"tollgate/dispatcher/classify"
	httptool "tollgate/tools/http"
)

// B66, B85: the limit is on decompressed bytes, and what is over it is not repeated.
func TestB85OversizeAnswers(t *testing.T) {
	const limit = 1 << 20
	var served atomic.Int64
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		chunk := make([]byte, 64<<10)
		var out io.Writer = w
		switch r.URL.Path {
		case "/exact":
			w.Write(make([]byte, limit))
			return
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out = z
		case "/500":
			w.WriteHeader(500)
		}
		for range 4096 { // 256 MiB
			n, err := out.Write(chunk)
			if err != nil {
				return
			}
			served.Add(int64(n))
		}
	})
	for path, want := range map[string]string{
		"/exact": "ok answered", "/endless": "permanent answered RESULT_TOO_LARGE",
		"/bomb": "permanent answered RESULT_TOO_LARGE", "/500": "transient no_answer HTTP_500",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v := executor(t, httptool.Spec{URL: s.URL + path, MaxResult: limit}).Execute(t.Context(), attempt)
		runtime.ReadMemStats(&after)
		if short(v) != want {
			t.Errorf("%s: %s, want %s", path, short(v), want)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20 {
			t.Errorf("%s: allocated %d MiB", path, grown>>20)
		}
		if v.Code == "RESULT_TOO_LARGE" && (!strings.Contains(v.Message, "1048577 bytes") || !strings.Contains(v.Message, "SHA-256")) {
			t.Errorf("%s: %q does not say the size and hash", path, v.Message)
		}
	}
}

// An answer counts only when complete, whatever its status said.
func TestTruncatedAnswers(t *testing.T) {
	raw := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Read(make([]byte, 64<<10))
				io.WriteString(c, answer)
				c.Close()
			}
		}()
		return "http://" + l.Addr().String()
	}
	const json = "Content-Type: application/json\r\n"
	for name, tt := range map[string]struct{ answer, want string }{
		"length too large":    {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"a\":1}", "transient no_answer "},
		"chunks break off":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":", "transient no_answer "},
		"error breaks off":    {"HTTP/1.1 400 Bad\r\nContent-Length: 50\r\n\r\nno", "transient no_answer "},
		"headers break off":   {"HTTP/1.1 200 OK\r\nContent-", "transient no_answer "},
		"nothing at all":      {"", "transient no_answer "},
		"not HTTP":            {"SSH-2.0\r\n\r\n", "transient no_answer "},
		"length too small":    {fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: 4\r\nConnection: close\r\n\r\n{\"a\":1}", json), "permanent answered INVALID_RESULT"},
		"announced, not JSON": {fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: 2\r\nConnection: close\r\n\r\nhi", json), "permanent answered INVALID_RESULT"},
	} {
		v := executor(t, httptool.Spec{URL: raw(tt.answer)}).Execute(t.Context(), attempt)
		if !strings.HasPrefix(short(v), tt.want) {
			t.Errorf("%s: %s, want %s", name, short(v), tt.want)
		}
	}
}

// A switch of protocols nobody asked for holds no attempt up.
func TestSwitchedProtocols(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	s := serve(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		c, _, err := nethttp.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		<-release
	})
	if v := executor(t, httptool.Spec{URL: s.URL}).Execute(t.Context(), attempt); short(v) != "unclassified answered HTTP_101" {
		t.Errorf("%s", short(v))
	}
}

func TestToolErrorInTheBody(t *testing.T) {
	s := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.WriteHeader(503)
		io.WriteString(w, `{"code":"NO_FUNDS","retryable":false,"retry_after_ms":null,"stop_reason":null,"detail":"balance 0"}`)
	})
	v := executor(t, httptool.Spec{URL: s.URL, Rules: classify.Rules{Codes: []string{"NO_FUNDS"}}}).Execute(t.Context(), attempt)
	if short(v) != "permanent answered NO_FUNDS" || v.For != classify.ForModel || !strings.Contains(v.Content[0].Text, "balance 0") {
		t.Errorf("%+v", v)
	}
}
