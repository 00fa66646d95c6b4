package http

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	nethttp "net/http"
	"net/url"

	"tollgate/dispatcher"
)

// maxHops bounds followed redirects, and with them a loop.
const maxHops = 10

// once is a body that cannot be read a second time. The transport takes a request
// for repeatable only if it has no body or knows how to make it again (GetBody), so
// every request gets one of these, those without content too: an empty one is not
// sent, but keeps the transport from sending the request twice.
type once struct{ r io.Reader }

func (o once) Read(p []byte) (int, error) { return o.r.Read(p) }
func (o once) Close() error               { return nil }

func (e *Executor) request(ctx context.Context, target *url.URL, in dispatcher.Invocation) *nethttp.Request {
	r := &nethttp.Request{
		Method: e.spec.Method, URL: target, Host: target.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(nethttp.Header),
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "tollgate")
	if e.inQuery() {
		r.Body = once{bytes.NewReader(nil)}
	} else {
		r.Body, r.ContentLength = once{bytes.NewReader(in.Arguments)}, int64(len(in.Arguments))
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range e.spec.Header {
		r.Header.Set(name, value)
	}
	for name, values := range in.Header() {
		r.Header.Set(name, values[0])
	}
	return r.WithContext(ctx)
}

func (e *Executor) inQuery() bool {
	return e.spec.Method == nethttp.MethodGet || e.spec.Method == nethttp.MethodDelete
}

// target is the catalogue's URL, for GET and DELETE with the arguments added to its
// query: top-level strings, numbers (as written) and booleans; null is left out. An
// argument cannot replace a parameter that the URL already has.
func (e *Executor) target(arguments []byte) (*url.URL, error) {
	if !e.inQuery() || len(arguments) == 0 {
		return e.url, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &members); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object")
	}
	fixed, query := e.url.Query(), url.Values{}
	for name, raw := range members {
		value, present, err := scalar(raw)
		switch {
		case err != nil:
			return nil, fmt.Errorf("argument %q must be a string, a number or a boolean: this tool takes its arguments in the URL", name)
		case fixed.Has(name):
			return nil, fmt.Errorf("argument %q is fixed for this tool and cannot be given", name)
		case present:
			query.Set(name, value)
		}
	}
	u := *e.url
	if u.RawQuery != "" && len(query) > 0 {
		u.RawQuery += "&"
	}
	u.RawQuery += query.Encode()
	return &u, nil
}

func scalar(raw json.RawMessage) (value string, present bool, err error) {
	switch raw[0] {
	case '{', '[':
		return "", false, fmt.Errorf("not a scalar")
	case '"':
		err = json.Unmarshal(raw, &value)
		return value, true, err
	case 'n':
		return "", false, nil
	}
	return string(raw), true, nil
}

func (e *Executor) follows(resp *nethttp.Response) bool {
	return e.spec.FollowRedirects &&
		(resp.StatusCode == nethttp.StatusTemporaryRedirect || resp.StatusCode == nethttp.StatusPermanentRedirect)
}

// redirectTarget is where a redirect leads, if that is the same scheme, host and
// port: credentials and arguments go nowhere else.
func redirectTarget(resp *nethttp.Response, from *url.URL) (*url.URL, bool) {
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, false
	}
	to, err := from.Parse(location)
	if err != nil || to.User != nil || to.Scheme != from.Scheme || to.Host != from.Host {
		return nil, false
	}
	to.Fragment = ""
	return to, true
}
