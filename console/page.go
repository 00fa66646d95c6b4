package console

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"tollgate/control"
)

// page is what every template is given.
type page struct {
	Title   string
	User    User
	Flash   string // what the last form did
	Data    any    // of this page
	URL     *url.URL
	Now     time.Time
	Version string
}

// section is one entry of the navigation.
type section struct{ Path, Name string }

var sections = []section{{"/", "Overview"}, {"/calls", "Calls"}, {"/dead", "Dead letters"}, {"/replays", "Replays"},
	{"/runs", "Runs"}, {"/tools", "Tools"}, {"/audit", "Audit"}, {"/settings", "Settings"}}

// Sections are the navigation.
func (p *page) Sections() []section { return sections }

// In reports whether the page belongs to a section.
func (p *page) In(s section) bool {
	return p.URL.Path == s.Path || s.Path != "/" && strings.HasPrefix(p.URL.Path, s.Path+"/")
}

// Here is the page's own address.
func (p *page) Here() string { return p.URL.RequestURI() }

// Param is a part of the page's query, to fill a filter's field with.
func (p *page) Param(name string) string { return p.URL.Query().Get(name) }

// With is the page's address with some query fields changed, given as name and value
// in turn; an empty value removes the field. The cursor goes with any other change.
func (p *page) With(pairs ...any) string {
	q := p.URL.Query()
	q.Del("cursor")
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1])
		if value == "" {
			q.Del(name)
		} else {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return p.URL.Path
	}
	return p.URL.Path + "?" + q.Encode()
}

// May reports whether the user may ask a verb; a control that may not be used says why.
func (p *page) May(verb string) bool { return p.User.Role.May(verb) }

// WhyNot says why the user may not.
func (p *page) WhyNot(verb string) string {
	return fmt.Sprintf("needs the role %s; you are %s", control.Needs(verb), p.User.Role)
}

// pages are the templates, by name.
type pages map[string]*template.Template

// readPages parses each page together with the layout and the parts they share.
func (c *Console) readPages() (pages, error) {
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	shared := template.New("layout").Funcs(c.funcs())
	if shared, err = shared.ParseFS(files, "templates/shared/*.html"); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	all := pages{}
	for _, name := range names {
		t, err := template.Must(shared.Clone()).ParseFS(files, name)
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		all[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return all, nil
}

// render writes a whole page or, when it cannot be rendered, nothing.
func (c *Console) render(w http.ResponseWriter, status int, name string, p *page) error {
	t := c.pages[name]
	if t == nil {
		return fmt.Errorf("console: no template %q", name)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, "layout", p); err != nil {
		return fmt.Errorf("console: render %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // a browser that went away is nobody's fault
	return nil
}

// askToSignIn shows the sign-in page.
func (c *Console) askToSignIn(w http.ResponseWriter, r *http.Request, status int, problem string) {
	data := struct {
		Problem, To string
		Tokens      bool // somebody has one; else there are only links
	}{problem, local(r.FormValue("to")), len(c.cfg.Users) > 0}
	p := &page{Title: "Sign in", Data: data, URL: r.URL, Now: c.cfg.Now(), Version: c.cfg.Version}
	if err := c.render(w, status, "signin", p); err != nil {
		c.cfg.Log.Error().Err(err).Msg("console: page not rendered")
		http.Error(w, "this page could not be shown", http.StatusInternalServerError)
	}
}
