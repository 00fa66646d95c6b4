package http_test

import (
	"bufio"
	"context"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	httptool "tollgate/tools/http"
)

// closer is a server that answers the first request of every connection and closes
// the connection once it has read a second one: what a kept-alive connection does
// when it dies under a request. It counts every request it has read.
type closer struct {
	net.Listener
	requests atomic.Int32
	done     sync.WaitGroup
}

func newCloser(t *testing.T) *closer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &closer{Listener: l}
	c.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.done.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); c.done.Wait() })
	return c
}

func (c *closer) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := nethttp.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		c.requests.Add(1)
		if n == 2 {
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	}
}

// I4, B43: Go's transport repeats by itself on a dead kept-alive connection. The
// control shows that it does; the executor, on the same server, does not.
func TestTransportDoesNotRepeat(t *testing.T) {
	for _, method := range []string{"POST", "GET", "DELETE", "PUT"} {
		t.Run(method, func(t *testing.T) {
			control := newCloser(t)
			plainClient(t, method, control)
			if n := control.requests.Load(); n != 3 {
				t.Fatalf("the control saw %d requests for 2: it does not provoke the repeat it should", n)
			}
			s := newCloser(t)
			e := executor(t, httptool.Spec{URL: "http://" + s.Addr().String(), Method: method})
			if v := e.Execute(t.Context(), attempt); !v.OK() {
				t.Fatalf("first: %+v", v)
			}
			v := e.Execute(t.Context(), attempt)
			if got := short(v); got != "transient no_answer CONNECTION_CLOSED" && got != "transient no_answer CONNECTION_LOST" && got != "transient no_answer CONNECTION_RESET" {
				t.Errorf("second: %s", got)
			}
			if n := s.requests.Load(); n != 2 {
				t.Errorf("the tool saw %d requests for 2 attempts", n)
			}
		})
	}
}

// plainClient makes two requests as an ordinary Go client with an idempotency key does.
func plainClient(t *testing.T, method string, s *closer) {
	t.Helper()
	client := &nethttp.Client{Transport: &nethttp.Transport{}}
	defer client.CloseIdleConnections()
	for range 2 {
		var body io.Reader
		if method == "POST" || method == "PUT" {
			body = strings.NewReader("{}")
		}
		req, err := nethttp.NewRequestWithContext(t.Context(), method, "http://"+s.Addr().String(), body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// A connection of its own has no kept-alive connection to die under it.
func TestFreshConnection(t *testing.T) {
	s := newCloser(t)
	e := executor(t, httptool.Spec{URL: "http://" + s.Addr().String(), FreshConnection: true})
	for range 3 {
		if v := e.Execute(t.Context(), attempt); !v.OK() {
			t.Errorf("%+v", v)
		}
	}
}

// B87, B88: a connection that opens and never takes a byte is still "may have left"
// once something was written; one that never opened is not.
func TestPhaseByBytesWritten(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := executor(t, httptool.Spec{URL: "http://" + l.Addr().String()})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if v := e.Execute(ctx, attempt); short(v) != "transient no_answer TIMEOUT" {
		t.Errorf("accepted by the kernel, never read: %s", short(v))
	}
	secure := executor(t, httptool.Spec{URL: "https://" + l.Addr().String()})
	ctx2, cancel2 := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel2()
	if v := secure.Execute(ctx2, attempt); short(v) != "transient not_sent TIMEOUT" {
		t.Errorf("TLS handshake never answered: %s", short(v))
	}
}
