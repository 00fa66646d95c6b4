package badinput

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// wire is a server that sends whatever bytes a case wants, and counts what it was asked.
type wire struct {
	url  string
	mu   sync.Mutex     // guards seen
	seen map[string]int // requests by path
}

func newWire(t *testing.T, cases map[string]func(net.Conn)) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{url: "http://" + l.Addr().String(), seen: map[string]int{}}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				w.mu.Lock()
				w.seen[r.URL.Path]++
				w.mu.Unlock()
				if answer := cases[r.URL.Path]; answer != nil {
					answer(c)
				}
			})
		}
	})
	return w
}

func (w *wire) of(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[path]
}

func says(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// flood sends the head and then the same again until nobody reads any more.
func flood(head, again string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, head)
		for more := strings.Repeat(again, 1+64<<10/len(again)); err == nil; {
			_, err = io.WriteString(c, more)
		}
	}
}

// bomb is 64 MiB of zeros in a few kilobytes.
func bomb(t *testing.T) func(net.Conn) {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return says("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + packed.String())
}

// hold waits until the other side gives up.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// badAnswers are those of an HTTP tool that must not be repeated: it is asked once.
func badAnswers(t *testing.T, b *table) {
	const ok, kind = "HTTP/1.1 200 OK\r\n", "Content-Type: application/json\r\n"
	cases := []struct {
		name   string
		answer func(net.Conn)
		want   string
	}{
		{"nothing, and the connection closed", says(""), "outcome unknown_outcome"},
		{"no HTTP", says("SSH-2.0-x\r\n\r\n"), "outcome unknown_outcome"},
		{"a status line cut off", says("HTTP/1.1 2"), "outcome unknown_outcome"},
		{"headers without an end", flood(ok, "X-Again: and again\r\n"), "outcome unknown_outcome"},
		{"one header without an end", flood(ok+"X-Long: ", "x"), "outcome unknown_outcome"},
		{"less than its Content-Length", says(ok + "Content-Length: 50\r\n\r\n{\"a\":1}"), "outcome unknown_outcome"},
		{"more than its Content-Length", says(ok + kind + "Content-Length: 4\r\nConnection: close\r\n\r\n{\"a\":1}"), "outcome failed: INVALID_RESULT"},
		{"two Content-Lengths", says(ok + "Content-Length: 2\r\nContent-Length: 7\r\n\r\n{\"a\":1}"), "outcome unknown_outcome"},
		{"a chunk of 2^64-1 bytes", says(ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx"), "outcome unknown_outcome"},
		{"chunks that break off", says(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":"), "outcome unknown_outcome"},
		{"a body without an end", flood(ok+"Connection: close\r\n\r\n", "x"), "outcome failed: RESULT_TOO_LARGE"},
		{"a gzip bomb of 64 MiB", bomb(t), "outcome failed: RESULT_TOO_LARGE"},
		{"gzip that is none", says(ok + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"), "outcome"},
		{"JSON that is none", says(ok + kind + "Content-Length: 2\r\n\r\nhi"), "outcome failed: INVALID_RESULT"},
		{"a switch of protocols", says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), "outcome failed: HTTP_101"},
		{"100 Continue for ever", flood("", "HTTP/1.1 100 Continue\r\n\r\n"), "outcome unknown_outcome"},
		{"a redirect to another host", says("HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"), "outcome failed: REDIRECT"},
		{"status 999", says("HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n"), "outcome unknown_outcome: HTTP_999"},
		{"a tool error with a field missing", says(ok + kind + "Content-Length: 30\r\n\r\n" + `{"code":"X","retryable":true }`), "outcome"},
		{"silence", hold, "outcome unknown_outcome"},
	}
	answers, tools := map[string]func(net.Conn){}, strings.Builder{}
	for i, c := range cases {
		answers[fmt.Sprint("/", i)] = c.answer
	}
	w := newWire(t, answers)
	for i := range cases {
		fmt.Fprintf(&tools, "  odd.n%d: { http: { url: \"%s/%d\" }, effect: write, concurrency: 2, dependency: free, policies: [quick] }\n", i, w.url, i)
	}
	p := newPlace(t, tools.String(), nil)
	for i, c := range cases {
		o := p.Do(worldtest.Msg{Tool: fmt.Sprint("odd.n", i), Run: "odd", Key: "k"})
		if n := w.of(fmt.Sprint("/", i)); n != 1 || o.Status == schemas.Succeeded {
			t.Errorf("%s: asked %d times, and it ended %s", c.name, n, o.Status)
		}
		b.expect(t, "HTTP answer", c.name, ended(o), c.want)
		p.serves(c.name)
	}
	p.sound()
}
