package console_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tollgate/console"
	"tollgate/control"
	"tollgate/internal/worldtest"
	"tollgate/schemas"
)

// browser is somebody who is signed in.
type browser struct {
	t      *testing.T
	url    string
	client *http.Client
}

// browse serves the console of a world and signs one user in.
func browse(t *testing.T, w *worldtest.World, role control.Role) *browser {
	t.Helper()
	subjects, _ := schemas.NewSubjects("")
	c, err := console.New(console.Config{NATS: w.NC, Subjects: subjects, Version: "test", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	jar, _ := cookiejar.New(nil) // it fails never
	b := &browser{t, server.URL, &http.Client{Jar: jar}}
	b.get(c.Link(console.User{Name: "ann", Role: role}), http.StatusOK, http.StatusNotFound) // the first page may not exist yet
	return b
}

// get loads a page, which has to answer with one of the statuses: 200 when none is named.
func (b *browser) get(path string, want ...int) string {
	b.t.Helper()
	r, err := b.client.Get(b.url + path)
	return b.read("GET "+path, r, err, want)
}

// post sends a form and goes on to where it leads.
func (b *browser) post(path string, form url.Values, want ...int) string {
	b.t.Helper()
	r, err := b.client.PostForm(b.url+path, form)
	return b.read("POST "+path, r, err, want)
}

func (b *browser) read(what string, r *http.Response, err error, want []int) string {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if len(want) == 0 {
		want = []int{http.StatusOK}
	}
	for _, status := range want {
		if r.StatusCode == status {
			return string(body)
		}
	}
	b.t.Fatalf("%s: status %d, want %v\n%s", what, r.StatusCode, want, body)
	return ""
}

// has fails unless a page says everything.
func has(t *testing.T, page string, says ...string) {
	t.Helper()
	for _, s := range says {
		if !strings.Contains(page, s) {
			t.Errorf("the page does not say %q:\n%s", s, page)
		}
	}
}

// hasNot fails when a page says any of it.
func hasNot(t *testing.T, page string, says ...string) {
	t.Helper()
	for _, s := range says {
		if strings.Contains(page, s) {
			t.Errorf("the page says %q", s)
		}
	}
}
