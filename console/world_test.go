package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tollgate/console"
	"tollgate/control"
	"tollgate/dispatcher"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
	"tollgate/tools/function"
)

// moodyTools do as their arguments say.
const moodyTools = `  look.up: { function: moody, effect: read, policies: [quick], redact: [/secret] }
  pay.never: { function: moody, effect: write, policies: [quick] }
  slow.look: { function: moody, effect: read, policies: [patient], dependency: free }
dependencies:
  free: { breaker: off, quota: { ratio: 1, burst: 10000 } }
`

// moody fails for good, for a while or for half an hour, never answers, or repeats what it was given.
func moody(ctx context.Context, in dispatcher.Invocation) (any, error) {
	switch body := string(in.Arguments); {
	case strings.Contains(body, "down"), strings.Contains(body, "once") && in.Attempt == 1:
		return nil, function.Transient("BUSY", "busy <b>now</b>", 0)
	case strings.Contains(body, "later"):
		return nil, function.Transient("LATER", "come again", 30*time.Minute)
	case strings.Contains(body, "hang"):
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return in.Arguments, nil
}

func moodyWorld(t *testing.T) *worldtest.World {
	return worldtest.New(t, moodyTools, map[string]function.Func{"moody": moody})
}

// call publishes a call and waits for its outcome.
func call(w *worldtest.World, m worldtest.Msg) *schemas.Outcome {
	w.T.Helper()
	w.Publish(m)
	return w.Outcome(m, 5*time.Minute)
}

// reader is a browser that somebody has signed in with.
type reader struct {
	w      *worldtest.World
	h      http.Handler
	cookie string
}

func newReader(w *worldtest.World, role control.Role) *reader {
	w.T.Helper()
	subjects, _ := schemas.NewSubjects("")
	c, err := console.New(console.Config{NATS: w.NC, Subjects: subjects, Version: "test", Log: zerolog.Nop()})
	if err != nil {
		w.T.Fatal(err)
	}
	r := &reader{w: w, h: c.Handler()}
	rec := r.do(http.MethodGet, c.Link(console.User{Name: "ann", Role: role}), nil)
	r.cookie, _, _ = strings.Cut(rec.Header().Get("Set-Cookie"), ";")
	if r.cookie == "" {
		w.T.Fatalf("not signed in: %d", rec.Code)
	}
	return r
}

func (r *reader) do(method, path string, form url.Values) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	q.Header.Set("Sec-Fetch-Site", "same-origin")
	q.Header.Set("Cookie", r.cookie)
	rec := httptest.NewRecorder()
	r.h.ServeHTTP(rec, q)
	return rec
}

// page gets a page that has to be there.
func (r *reader) page(path string) string {
	r.w.T.Helper()
	rec := r.do(http.MethodGet, path, nil)
	if rec.Code != http.StatusOK {
		r.w.T.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// inOrder fails unless a page contains every text, and in this order.
func inOrder(t *testing.T, page string, texts ...string) {
	t.Helper()
	rest := page
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Errorf("%q is not there, or not after what should stand before it:\n%s", text, rest)
			return
		}
		rest = after
	}
}
