package web_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"tollgate/internal/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhereItMayListen(t *testing.T) {
	for _, tc := range []struct {
		address string
		exposed bool
		problem string // "" is none
	}{
		{"127.0.0.1:9464", false, ""},
		{"localhost:0", false, ""},
		{"[::1]:9464", false, ""},
		{"0.0.0.0:9464", false, "reachable from other machines"},
		{"10.1.2.3:9464", false, "expose: true"},
		{"tollgate.internal:9464", false, "reachable from other machines"},
		{"[::]:9464", false, "reachable from other machines"},
		{"0.0.0.0:9464", true, ""},
		{":9464", false, "names no host"},
		{":9464", true, "names no host"},
		{"9464", false, "not host:port"},
	} {
		err := web.Check(tc.address, tc.exposed)
		if got := err == nil; got != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s, exposed %v: %v, want %q", tc.address, tc.exposed, err, tc.problem)
		}
		if err != nil {
			if l, err := web.Listen(tc.address, tc.exposed, zerolog.Nop()); err == nil {
				l.Close()
				t.Errorf("%s, exposed %v: it listens all the same", tc.address, tc.exposed)
			}
		}
	}
}

// serve serves h on a free port until the test ends.
func serve(t *testing.T, h http.Handler) (url string, stop func()) {
	t.Helper()
	l, err := web.Listen("127.0.0.1:0", false, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx, h) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return l.URL(), stop
}

func get(t *testing.T, url, host string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Close = host, true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// A page whose name its owner has pointed at 127.0.0.1 must not read what is here.
func TestOnlyItsOwnMachinesNamesAreAnswered(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(web.Health))
	for host, want := range map[string]int{"": 200, "localhost:9464": 200, "[::1]:1": 200, "127.0.0.1": 200, "evil.example": 421, "evil.example:9464": 421, "10.0.0.1:9464": 421} {
		status, _, header := get(t, url, host)
		if status != want {
			t.Errorf("host %q: %d, want %d", host, status, want)
		}
		if header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("host %q: headers %v", host, header)
		}
	}
}

func TestReadySaysWhatIsMissing(t *testing.T) {
	missing := []string{"nats: the connection is reconnecting", "ledger: no space left on device"}
	url, _ := serve(t, web.Ready(func() []string { return missing }))
	status, body, _ := get(t, url, "")
	if status != http.StatusServiceUnavailable || body != strings.Join(missing, "\n")+"\n" {
		t.Errorf("%d %q", status, body)
	}
	missing = nil
	if status, body, _ = get(t, url, ""); status != http.StatusOK || body != "ready\n" {
		t.Errorf("%d %q", status, body)
	}
}

// A request that hangs holds up a stop for two seconds, not for ever.
func TestAStopIsBounded(t *testing.T) {
	entered := make(chan struct{})
	url, stop := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	failed := make(chan error, 1)
	go func() {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-entered
	began := time.Now()
	stop()
	if took := time.Since(began); took < time.Second || took > 5*time.Second {
		t.Errorf("the stop took %s, want about 2 s", took)
	}
	if <-failed == nil {
		t.Error("the hanging request was answered")
	}
	http.DefaultClient.CloseIdleConnections()
}
