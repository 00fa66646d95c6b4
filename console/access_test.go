package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tollgate/console"
	"tollgate/control"
)

// door serves a console whose dispatcher is nobody: what is tested comes before it is
// asked. It follows no redirect.
func door(t *testing.T, cfg console.Config) (c *console.Console, address string, client *http.Client) {
	t.Helper()
	cfg.Log = zerolog.Nop()
	c, err := console.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(c.Handler())
	t.Cleanup(s.Close)
	return c, s.URL, &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func send(t *testing.T, client *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func request(t *testing.T, method, address string, form url.Values) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

const annsToken = "0123456789abcdef-ann"

func ann() []console.User {
	sum := sha256.Sum256([]byte(annsToken))
	return []console.User{{Name: "ann", Role: control.Operator, SHA256: hex.EncodeToString(sum[:])}, {Name: "by link only", Role: control.Admin}}
}

func TestATokenSignsItsUserIn(t *testing.T) {
	_, at, client := door(t, console.Config{Users: ann()})
	resp, _ := send(t, client, request(t, "POST", at+"/signin", url.Values{"token": {annsToken}, "to": {"/audit?by=ann"}}))
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/audit?by=ann" || len(resp.Cookies()) != 1 {
		t.Fatalf("%d to %q, %v", resp.StatusCode, resp.Header.Get("Location"), resp.Cookies())
	}
	k := resp.Cookies()[0]
	if !k.HttpOnly || k.SameSite != http.SameSiteLaxMode || k.Path != "/" || k.Domain != "" || len(k.Value) < 20 {
		t.Errorf("the cookie is %+v", k)
	}
	for _, token := range []string{"", "wrong", annsToken + "x", strings.ToUpper(annsToken), ann()[0].SHA256} {
		resp, body := send(t, client, request(t, "POST", at+"/signin", url.Values{"token": {token}}))
		if resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) != 0 || !strings.Contains(body, "No user has that token") {
			t.Errorf("token %q: %d", token, resp.StatusCode)
		}
	}
}

// Who guesses is slowed down, is told so, and keeps nobody else out.
func TestSignInsThatFailAreLimited(t *testing.T) {
	now := time.Now()
	_, at, client := door(t, console.Config{Users: ann(), Now: func() time.Time { return now }})
	try := func(token string) (*http.Response, string) {
		return send(t, client, request(t, "POST", at+"/signin", url.Values{"token": {token}}))
	}
	for range 10 {
		if resp, _ := try("wrong"); resp.StatusCode != http.StatusForbidden {
			t.Fatalf("%d", resp.StatusCode)
		}
	}
	resp, body := try(annsToken)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "Try again in 3 s") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := send(t, client, request(t, "GET", at+"/signin?link=guessed", nil)); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a guessed link: %d", resp.StatusCode)
	}
	now = now.Add(3 * time.Second)
	if resp, _ := try(annsToken); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("later: %d", resp.StatusCode)
	}
	// A sign-in counts for nothing, and begins no new count: who has a token of their own guesses no faster.
	for i, want := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		if resp, _ := try("wrong"); resp.StatusCode != want {
			t.Errorf("guess %d after a sign-in: %d, want %d", i+1, resp.StatusCode, want)
		}
	}
}

// Refused attempts cost nothing, however many come at once: the next one is allowed as
// soon after a flood as after a single one.
func TestAFloodOfSignInsIsOverWhenItEnds(t *testing.T) {
	now := time.Now()
	c, err := console.New(console.Config{Users: ann(), Now: func() time.Time { return now }, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	try := func(token string) int {
		w := httptest.NewRecorder()
		c.Handler().ServeHTTP(w, request(t, "POST", "/signin", url.Values{"token": {token}}))
		return w.Code
	}
	var flood sync.WaitGroup
	for range 64 {
		flood.Go(func() {
			for range 200 {
				try("wrong")
			}
		})
	}
	flood.Wait()
	now = now.Add(3 * time.Second)
	for i, want := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		if got := try("wrong"); got != want {
			t.Errorf("attempt %d three seconds later: %d, want %d", i+1, got, want)
		}
	}
}

// Many people may sign in from one address, a proxy's for example.
func TestSignInsThatSucceedAreNotLimited(t *testing.T) {
	now := time.Now()
	_, at, client := door(t, console.Config{Users: ann(), Now: func() time.Time { return now }})
	for range 50 {
		if resp, _ := send(t, client, request(t, "POST", at+"/signin", url.Values{"token": {annsToken}})); resp.StatusCode != http.StatusSeeOther {
			t.Fatalf("%d", resp.StatusCode)
		}
	}
}

// A cookie that somebody has planted is never taken over, a sign-out ends the session on
// this side too, and a session ends by itself.
func TestSessionsAreOursAndEnd(t *testing.T) {
	now := time.Now()
	c, at, client := door(t, console.Config{Now: func() time.Time { return now }})
	enter := func(cookies ...*http.Cookie) *http.Cookie {
		r := request(t, "GET", at+c.Link(console.User{Name: "ann", Role: control.Viewer}), nil)
		for _, k := range cookies {
			r.AddCookie(k)
		}
		resp, _ := send(t, client, r)
		if len(resp.Cookies()) != 1 {
			t.Fatalf("%d, cookies %v", resp.StatusCode, resp.Cookies())
		}
		return resp.Cookies()[0]
	}
	in := func(k *http.Cookie) bool {
		r := request(t, "GET", at+"/nothing-here", nil)
		r.AddCookie(k)
		resp, _ := send(t, client, r)
		return resp.StatusCode == http.StatusNotFound // and not on to the sign-in
	}
	planted := &http.Cookie{Name: "tollgate-session", Value: "AAAAAAAAAAAAAAAAAAAAAAAAAA"}
	if in(planted) {
		t.Error("an unknown cookie is a session")
	}
	first := enter(planted)
	if first.Value == planted.Value || in(planted) || !in(first) {
		t.Error("a planted cookie was taken over")
	}
	second := enter(first)
	if in(first) || !in(second) {
		t.Error("signing in again left the first session open")
	}
	out := request(t, "POST", at+"/signout", nil)
	out.AddCookie(second)
	if resp, _ := send(t, client, out); resp.StatusCode != http.StatusSeeOther || resp.Cookies()[0].MaxAge >= 0 || in(second) {
		t.Error("the sign-out did not end it")
	}
	third := enter()
	now = now.Add(console.SessionFor - time.Second)
	if !in(third) {
		t.Error("it ended too early")
	}
	if now = now.Add(time.Second); in(third) {
		t.Error("it did not end")
	}
}

// Behind https the cookie belongs to one host and is never sent unencrypted; and no
// other name is answered, whoever has pointed it here.
func TestAPublicConsoleAnswersUnderItsNameOnly(t *testing.T) {
	c, at, client := door(t, console.Config{Users: ann(), PublicURL: "https://tollgate.example.com"})
	for host, want := range map[string]int{"tollgate.example.com": 303, "localhost:9464": 303, "127.0.0.1:1": 303, "evil.example": 421, "tollgate.example.com.evil.example": 421, "10.0.0.1": 421} {
		r := request(t, "GET", at+c.Link(console.User{Name: "ann"}), nil)
		r.Host = host
		resp, _ := send(t, client, r)
		if resp.StatusCode != want {
			t.Errorf("host %s: %d, want %d", host, resp.StatusCode, want)
		}
		for _, k := range resp.Cookies() {
			if k.Name != "__Host-tollgate-session" || !k.Secure || k.Path != "/" {
				t.Errorf("host %s: cookie %v", host, k)
			}
		}
	}
	r := request(t, "POST", at+"/signin", url.Values{"token": {annsToken}})
	r.Host = "tollgate.example.com"
	r.Header.Set("Origin", "https://tollgate.example.com")
	if resp, _ := send(t, client, r); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("from its own page behind a proxy: %d", resp.StatusCode)
	}
}

func TestAConsoleThatIsOffSaysHowToSwitchItOn(t *testing.T) {
	c, at, client := door(t, console.Config{Off: "the console is off: no user may sign in"})
	for _, path := range []string{"/", "/audit", "/signin", c.Link(console.User{Name: "ann", Role: control.Admin})} {
		resp, body := send(t, client, request(t, "GET", at+path, nil))
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "no user may sign in") || !strings.Contains(body, "http.users") || len(resp.Cookies()) != 0 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	if resp, _ := send(t, client, request(t, "POST", at+"/signin", url.Values{"token": {"x"}})); resp.StatusCode != http.StatusForbidden {
		t.Errorf("sign-in: %d", resp.StatusCode)
	}
}

func TestTheWayBackInLeadsToThePageThatWasAskedFor(t *testing.T) {
	_, at, client := door(t, console.Config{Users: ann()})
	client.Jar, _ = cookiejar.New(nil)
	resp, _ := send(t, client, request(t, "GET", at+"/audit?by=a%26b", nil))
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || to.Path != "/signin" || to.Query().Get("to") != "/audit?by=a%26b" {
		t.Fatalf("%d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	_, page := send(t, client, request(t, "GET", at+to.String(), nil))
	if !strings.Contains(page, `name="to" value="/audit?by=a%26b"`) {
		t.Errorf("the form forgets it: %s", page)
	}
	resp, body := send(t, client, request(t, "POST", at+"/tools/x/pause", nil))
	if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "nothing was done") {
		t.Errorf("a form without a session: %d %s", resp.StatusCode, body)
	}
}
