package browser

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Shape is an address without what differs between pages of one kind.
func Shape(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	path := u.Path
	for _, kind := range []string{"/calls/", "/dead/", "/replays/", "/runs/", "/tools/"} {
		rest, found := strings.CutPrefix(path, kind)
		id, more, _ := strings.Cut(rest, "/")
		if !found || id == "" || kind == "/dead/" && !strings.Contains(id, ".") {
			continue // no letter has an ID without a point: /dead/list is a page
		}
		if path = kind + "ID"; more != "" {
			path += "/" + more
		}
	}
	if q := u.Query(); len(q) > 0 {
		var names []string
		for name := range q {
			names = append(names, name)
		}
		slices.Sort(names)
		path += "?" + strings.Join(names, "&")
	}
	return path
}

// links are where a page leads to, within the console and for a browser to show.
const links = `[...document.querySelectorAll("a[href]")].filter(a => a.origin === location.origin && !a.hasAttribute("download"))
	.map(a => a.pathname + a.search).filter(to => !to.startsWith("/static/"))`

// mostPages and mostFilters bound a walk: a list can be narrowed in ever other ways.
const (
	mostPages   = 80
	mostFilters = 3 // of one page
)

// Walk goes to the first page of every kind that can be reached from the console's first
// page, and to some lists that are narrowed, and lets see look at each. A page that leads
// nowhere does not end it.
func (t *Tab) Walk(see func(address string) error) error {
	var wrong []error
	seen, next := map[string]bool{"/": true}, []string{"/"}
	filters := map[string]int{}
	for i := 0; i < len(next) && i < mostPages; i++ {
		status, err := t.Go(next[i])
		if err != nil {
			return err
		}
		if status != 200 {
			wrong = append(wrong, fmt.Errorf("%s answers %d; a page leads there", next[i], status))
			t.Troubles() // the browser says the same
			continue
		}
		to, err := Eval[[]string](t, links)
		if err == nil {
			err = see(next[i])
		}
		if err != nil {
			return err
		}
		for _, address := range to {
			shape := Shape(address)
			page, _, filtered := strings.Cut(shape, "?")
			if seen[shape] || filtered && filters[page] == mostFilters {
				continue
			}
			if seen[shape] = true; filtered {
				filters[page]++
			}
			next = append(next, address)
		}
	}
	return errors.Join(wrong...)
}
