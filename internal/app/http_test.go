package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tollgate/console"
	"tollgate/control"
	"tollgate/internal/app"
	"tollgate/internal/config"
)

// served starts a dispatcher with its own server and the given http section.
func served(t *testing.T, section string) (*app.App, error) {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`
nats: { embedded: { listen: "127.0.0.1:0", store_dir: nats, max_store: 8GiB, sync: 1s } }
ledger: { path: ledger.db, sync: 1s }
%s
policies:
  p: { attempts: 1, timeout: 1s, backoff: { base: 1s, cap: 1s, throttle_base: 1s }, max_retry_after: 1s, max_deadline: 1m,
       run: { attempts: 10, side_effects: 1, elapsed: 1h, max_repairs: 1, max_accounts: 2 } }
tools:
  cat: { exec: { command: cat }, effect: read, policies: [p] }
`, section)
	c, err := config.Parse(filepath.Join(dir, "tollgate.yaml"), []byte(text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.Start(context.Background(), app.Options{Config: c, Log: zerolog.Nop(), Version: "1.2.3"})
	if err == nil {
		t.Cleanup(func() {
			a.Stop()
			if err := a.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	return a, err
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	c := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestOperatorsAreServedOverHTTP(t *testing.T) {
	a, err := served(t, `http: { listen: "127.0.0.1:0" }`)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/livez":   "ok\n",
		"/readyz":  "ready\n",
		"/metrics": `tollgate_build_info{go="` + "go",
	} {
		if code, body := get(t, a.HTTPURL()+path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.200q, want %q", path, code, body, want)
		}
	}
	_, body := get(t, a.HTTPURL()+"/metrics")
	for _, want := range []string{`version="1.2.3"`, "\ntollgate_ready 1\n", "\ngo_goroutines ", "\nprocess_resident_memory_bytes ", "\ntollgate_tool_concurrency{tool=\"cat\"} 4\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics does not hold %q", want)
		}
	}
	if code, body := get(t, a.HTTPURL()+"/nothing"); code != http.StatusOK || !strings.Contains(body, "tollgate console") {
		t.Errorf("who is not signed in: %d %s", code, body)
	}
}

// On an address that others reach, without users: the metrics are there for whoever the
// firewall lets through, and the console is for nobody.
func TestAnExposedListenerWithoutUsersHasMetricsAndNoConsole(t *testing.T) {
	a, err := served(t, `http: { listen: "0.0.0.0:0", expose: true }`)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/metrics": 200, "/livez": 200, "/readyz": 200, "/": 403, "/audit": 403, "/signin": 403} {
		if code, body := get(t, a.HTTPURL()+path); code != want || want == 403 && !strings.Contains(body, "http.users") {
			t.Errorf("%s: %d, want %d: %.300s", path, code, want, body)
		}
	}
	if link := a.ConsoleLink(console.User{Name: "ann", Role: control.Admin}); link != "" {
		t.Errorf("a link all the same: %s", link)
	}
}

func TestAnExposedListenerWithUsersAsksWhoOneIs(t *testing.T) {
	a, err := served(t, `http: { listen: "0.0.0.0:0", expose: true, users: { ann: { role: viewer, token: 0123456789abcdef } } }`)
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil) // it fails never
	c := http.Client{Timeout: 20 * time.Second, Jar: jar}
	resp, err := c.PostForm(a.HTTPURL()+"/signin", url.Values{"token": {"0123456789abcdef"}, "to": {"/settings"}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "You are <strong>ann</strong>, with the role <strong>viewer</strong>") {
		t.Errorf("%d %v %s", resp.StatusCode, err, body)
	}
	c.CloseIdleConnections()
}

func TestNobodyAskedForAListener(t *testing.T) {
	a, err := served(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if url := a.HTTPURL(); url != "" {
		t.Errorf("it listens on %s", url)
	}
}

// A port that is taken ends the start, and leaves nothing locked behind.
func TestAPortThatIsTakenEndsTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = served(t, fmt.Sprintf("http: { listen: %q }", l.Addr()))
	if err == nil || !strings.Contains(err.Error(), "set http.listen to a free port") {
		t.Errorf("the start said %v", err)
	}
}
